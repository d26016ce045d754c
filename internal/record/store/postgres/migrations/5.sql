-- What nodes have taken out of the calls that all of them may begin in a minute. A server
-- that crashes or is replaced forgets it.
CREATE UNLOGGED TABLE rates(key bytea NOT NULL, taken bigint NOT NULL, node uuid NOT NULL, calls bigint NOT NULL);
CREATE INDEX rates_key ON rates(key);

-- remit_take_calls gives a node a part of a minute's calls, for six seconds. Parts count for
-- 66 seconds, so no minute has more calls than it may.
CREATE FUNCTION remit_take_calls(k bytea, me uuid, most bigint, want bigint, earlier bigint, unused bigint, OUT got bigint, OUT at bigint, OUT wait bigint) LANGUAGE plpgsql AS $$
DECLARE span CONSTANT bigint := 66000000;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended(encode(k, 'hex'), 1));
	at := extract(epoch FROM clock_timestamp()) * 1000000;
	UPDATE rates SET calls = calls - unused WHERE key = k AND node = me AND taken = earlier AND calls >= unused;
	DELETE FROM rates WHERE key = k AND (calls <= 0 OR taken <= at - span OR taken > at);
	SELECT greatest(0, least(want, most - coalesce(sum(calls), 0))), coalesce(min(taken) + span - at, 0) INTO got, wait FROM rates WHERE key = k;
	IF got > 0 THEN
		INSERT INTO rates VALUES(k, at, me, got);
		DELETE FROM rates WHERE ctid IN (SELECT ctid FROM rates WHERE taken <= at - span LIMIT 10 FOR UPDATE SKIP LOCKED);
	END IF;
END $$;
