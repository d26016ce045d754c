-- Several nodes that serve one ledger:
--
--   turns         which node works on which session; caller is encrypted
--   turn_epochs   numbers turns: a later turn of a session has a higher number
--   members.name  names the node in messages
--   server        the server's timeline when a node last looked, and whether a standby was synchronous then

CREATE SEQUENCE turn_epochs;
CREATE TABLE turns(session bytea PRIMARY KEY, node uuid NOT NULL, epoch bigint NOT NULL, request bigint NOT NULL, caller bytea NOT NULL) WITH (fillfactor = 50);
CREATE INDEX turns_node ON turns(node);
ALTER TABLE members ADD COLUMN name text COLLATE "C" NOT NULL DEFAULT '';
CREATE TABLE server(id bigint PRIMARY KEY CHECK(id = 1), timeline text COLLATE "C" NOT NULL, standby boolean NOT NULL);
