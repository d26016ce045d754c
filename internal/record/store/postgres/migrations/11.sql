-- The length of a member's lease, in microseconds. A lease that lies further away than that was
-- made before the server's clock was set back.
ALTER TABLE members ADD COLUMN lease bigint NOT NULL DEFAULT 5000000;

-- lane says why a waiting run could not start when it was last looked at; '': it was not yet, or
-- nothing was in its way. claimed is until when a node has it to start it, and tries how often one had it in vain. They only save work: a
-- wrong value starts no run that may not start.
ALTER TABLE queue ADD COLUMN lane text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN claimed bigint NOT NULL DEFAULT 0, ADD COLUMN tries bigint NOT NULL DEFAULT 0;
CREATE INDEX queue_lanes ON queue(lane, priority, due, seq) WHERE state = 1;
