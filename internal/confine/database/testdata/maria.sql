CREATE TABLE users(id int AUTO_INCREMENT PRIMARY KEY, name varchar(50), password varchar(50), born date)
CREATE TABLE orders(id int PRIMARY KEY, user int, total decimal(10,2), day date, data longtext, FOREIGN KEY (user) REFERENCES users(id) ON DELETE CASCADE ON UPDATE CASCADE)
CREATE TABLE notes(id int AUTO_INCREMENT PRIMARY KEY, body varchar(100) UNIQUE)
CREATE TABLE audit(what text)
CREATE TABLE hidden(x varchar(100))
CREATE TABLE measures(raw int, secret int, twice int AS (secret * 2) STORED)
CREATE TABLE copies(id int, secret varchar(100), open varchar(100) DEFAULT (secret))
CREATE TABLE watched(id int)
CREATE TABLE kept(id int) ENGINE=MyISAM
CREATE TABLE both_kept(id int) ENGINE=MERGE UNION=(kept)
CREATE TABLE versions(id int) WITH SYSTEM VERSIONING
CREATE TABLE Cased(x int)
CREATE TABLE cased(x int)
CREATE TABLE `odd name (x`(`a ``b``` int, `select` int)
CREATE TABLE `größe`(`länge` int)
CREATE SEQUENCE counter
CREATE VIEW people AS SELECT id, name FROM users
CREATE VIEW logins AS SELECT name, password AS p FROM users
CREATE VIEW nested AS SELECT count(0) AS n FROM logins
CREATE VIEW quoted AS SELECT 'it\'s' AS a, "d""q" AS b, 'back\\slash' AS c, name FROM users WHERE name LIKE 'A%'
CREATE FUNCTION leak() RETURNS text READS SQL DATA RETURN (SELECT max(password) FROM users)
CREATE VIEW leaks AS SELECT leak() AS x
CREATE DATABASE sales
CREATE TABLE sales.deals(id int, amount decimal(10,2), buyer text)
CREATE DATABASE public
CREATE TABLE public.vault(x text)
CREATE TRIGGER watches BEFORE INSERT ON watched FOR EACH ROW INSERT INTO audit VALUES ('seen')
INSERT INTO users(name, password, born) VALUES('Ada', 'secret-of-ada', '1815-12-10'), ('Bob', 'secret-of-bob', NULL)
INSERT INTO copies VALUES(1, 'secret-of-copies', 'x')
INSERT INTO hidden VALUES('secret-of-hidden')
INSERT INTO orders VALUES(1, 1, 9.50, '2026-01-02', '{"k": [1, 2]}'), (2, 1, 20, '2026-01-03', NULL)
INSERT INTO measures(raw, secret) VALUES(1, 777123777)
INSERT INTO notes(body) VALUES ('first')
