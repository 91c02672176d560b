-- What is asked besides the verbs, as the driver sends it: {…} is put in by queries.py, bytes as hexadecimal literals.

-- name: session
-- Every connection begins so.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION innodb_lock_wait_timeout = 2, group_concat_max_len = 1048576, sql_mode = 'STRICT_ALL_TABLES'

-- name: state
-- Whether the server takes writes, and which version of the tables is there; no table fails with 1146.
SELECT @@global.read_only, (SELECT MAX(version) FROM aiodlock_versions)

-- name: listen
-- Sleep until the bell rings, unless there is mail: whoever rings has written it before, so no call falls in between.
SELECT IF(EXISTS(SELECT 1 FROM aiodlock_mail WHERE client = {client}), 0, SLEEP({seconds}))

-- name: mail
SELECT id, word, line, ticket, epoch, company, reason FROM aiodlock_mail WHERE client = {client} ORDER BY id LIMIT 1000

-- name: drop_mail
DELETE FROM aiodlock_mail WHERE client = {client} AND id IN ({ids})
