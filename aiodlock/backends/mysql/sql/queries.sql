-- What is asked besides the verbs, as the driver sends it: {…} is put in by queries.py, bytes as hexadecimal literals.

-- name: session
-- Every connection begins so. A verb waits for somebody's row as short as a server can count, because all others wait with it.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION innodb_lock_wait_timeout = 1, group_concat_max_len = 1048576, sql_mode = 'STRICT_ALL_TABLES'

-- name: state
-- Whether the server takes writes, and which version of the tables is there; no table fails with 1146.
SELECT @@global.read_only, (SELECT MAX(version) FROM aiodlock_versions)

-- name: enter
-- The whole of a join where nobody is here and nothing is remembered of anybody: as in aiodlock_join, which is called if
-- this changes nothing. The epoch comes back as LAST_INSERT_ID. Set from left to right: lone_since is the time of now.
-- Clients that stay connected send it after an upgrade, too: the columns that it looks at must keep their sense.
UPDATE aiodlock_lines
   SET size = {size}, used = {weight}, inside = 1, lone_since = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       soonest = lone_since + {ttl}, last = LAST_INSERT_ID(GREATEST(last + 1, lone_since DIV 16)),
       lone = {id}, lone_client = {client}, lone_owner = {owner}
 WHERE line = {line} AND inside = 0 AND waiting = 0 AND graves = 0
   AND kept >= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + {ttl} + 60000000

-- name: go
-- The whole of a leave of who is alone: as in aiodlock_leave, which is called if this changes nothing.
UPDATE aiodlock_lines SET used = 0, inside = 0, lone = ''
 WHERE line = {line} AND lone = {id} AND lone_client = {client} AND waiting = 0

-- name: listen
-- Wait until the bell rings, unless there is mail: whoever rings has written it before, so no call falls in between. The
-- name is held by the connection for verbs, so it is not to be had; to get it means that that connection is lost. SLEEP
-- would do the same, but a ring at the moment of falling asleep then stops MariaDB's KILL, and all other sleepers, for 2 s.
SELECT IF(EXISTS(SELECT 1 FROM aiodlock_mail WHERE client = {client}), 0, GET_LOCK({pillow}, {seconds}))

-- name: get_up
DO RELEASE_LOCK({pillow})

-- name: mail
SELECT id, word, line, ticket, epoch, company, reason FROM aiodlock_mail WHERE client = {client} ORDER BY id LIMIT 1000

-- name: drop_mail
DELETE FROM aiodlock_mail WHERE client = {client} AND id IN ({ids})

-- name: settings
SELECT VERSION(), @@global.max_connections, @@global.innodb_flush_log_at_trx_commit,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000000, DATABASE()

-- name: status
SHOW GLOBAL STATUS LIKE 'Threads_connected';
SHOW SESSION STATUS LIKE 'Ssl_cipher';
SHOW GLOBAL VARIABLES LIKE 'log_bin';
SHOW GLOBAL VARIABLES LIKE 'binlog_format'
