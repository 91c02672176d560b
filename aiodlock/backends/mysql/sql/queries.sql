-- What is asked besides the verbs, as the driver sends it: {…} is put in by queries.py, bytes as hexadecimal literals.

-- name: session
-- Every connection begins so.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION innodb_lock_wait_timeout = 2, group_concat_max_len = 1048576, sql_mode = 'STRICT_ALL_TABLES'

-- name: state
-- Whether the server takes writes, and which version of the tables is there; no table fails with 1146.
SELECT @@global.read_only, (SELECT MAX(version) FROM aiodlock_versions)

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
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000000

-- name: status
SHOW GLOBAL STATUS LIKE 'Threads_connected';
SHOW SESSION STATUS LIKE 'Ssl_cipher';
SHOW GLOBAL VARIABLES LIKE 'log_bin';
SHOW GLOBAL VARIABLES LIKE 'binlog_format'
