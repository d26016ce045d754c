-- How many calls of a key each node has under way. A server that crashes or is replaced forgets it.
CREATE UNLOGGED TABLE places(key bytea NOT NULL, node uuid NOT NULL, calls bigint NOT NULL, PRIMARY KEY(key, node));

-- remit_take_places notes how many calls of a key a node wants to have under way, and gives how
-- many it may: never fewer than it has, and no more than all nodes together may. Places of a node
-- that is no member any more are free.
CREATE FUNCTION remit_take_places(k bytea, me uuid, most bigint, want bigint, OUT got bigint) LANGUAGE plpgsql AS $$
DECLARE mine bigint; others bigint;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended(encode(k, 'hex'), 2));
	DELETE FROM places p WHERE p.key = k AND NOT EXISTS (SELECT FROM members m WHERE m.id = p.node);
	SELECT coalesce(sum(calls) FILTER (WHERE node = me), 0), coalesce(sum(calls) FILTER (WHERE node <> me), 0) INTO mine, others FROM places WHERE key = k;
	got := CASE WHEN want <= mine THEN want ELSE greatest(mine, least(want, most - others)) END;
	IF got > 0 THEN
		INSERT INTO places VALUES(k, me, got) ON CONFLICT (key, node) DO UPDATE SET calls = excluded.calls;
	ELSE
		DELETE FROM places WHERE key = k AND node = me;
	END IF;
END $$;
