-- When the bucket of requests of a key is full, in microseconds; one that is full has no row. A
-- server that crashes or is replaced forgets it.
CREATE UNLOGGED TABLE buckets(key bytea PRIMARY KEY, filled bigint NOT NULL);
CREATE INDEX buckets_filled ON buckets(filled);

-- remit_take_requests takes at most want requests out of a key's bucket, as store.Bucket.Take does.
CREATE FUNCTION remit_take_requests(k bytea, gap double precision, most bigint, want bigint, OUT got bigint, OUT wait bigint) LANGUAGE plpgsql AS $$
DECLARE now bigint; till bigint; rest double precision;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended(encode(k, 'hex'), 3));
	now := extract(epoch FROM clock_timestamp()) * 1000000;
	SELECT greatest(now, least(coalesce(max(filled), 0), now + (most * gap)::bigint)) INTO till FROM buckets WHERE key = k;
	rest := most - (till - now) / gap;
	IF rest < 1 THEN
		UPDATE buckets SET filled = till WHERE key = k AND filled > till; -- it was filled more slowly before
		got := 0;
		wait := ceil((1 - rest) * gap);
		RETURN;
	END IF;
	got := least(want, floor(rest));
	wait := 0;
	INSERT INTO buckets VALUES(k, till + floor(got * gap)::bigint) ON CONFLICT (key) DO UPDATE SET filled = excluded.filled;
	DELETE FROM buckets WHERE ctid IN (SELECT ctid FROM buckets WHERE filled <= now LIMIT 10 FOR UPDATE SKIP LOCKED);
END $$;
