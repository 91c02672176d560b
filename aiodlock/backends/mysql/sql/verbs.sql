-- The verbs: one procedure each, so that a verb is one round trip and one short transaction that no client can hold open.
-- "part" blocks are text that procedures include; "name" blocks are created as they are. p_ is a parameter, v_ a variable:
-- a variable would hide a column of the same name. Times are microseconds.
--
-- answer   words parted by spaces, and the holder's name or NULL; to a renewal of who is inside: why it is asked to go, or NULL
--          inside, epoch, life left, 1 if others wait, size
--          waiting, last epoch, look again after, most tickets ahead, size
--          buried, expired, heavy, busy, full

-- part: variables
-- Of most verbs; whatever fails is rolled back.
    DECLARE v_size, v_used, v_inside, v_waiting, v_serial, v_last, v_soonest, v_graves, v_kept, v_is_lone BIGINT;
    DECLARE v_before, v_now, v_first, v_steps, v_first_weight, v_first_ends BIGINT DEFAULT 0;
    DECLARE v_state, v_weight, v_own_serial, v_epoch, v_ends BIGINT;
    DECLARE v_calls, v_called_epoch BIGINT DEFAULT 0;
    DECLARE v_first_id, v_called_id VARBINARY(128);
    DECLARE v_first_client, v_called VARBINARY(16);
    DECLARE v_quiet VARBINARY(128) DEFAULT '';
    DECLARE v_client VARBINARY(16);
    DECLARE v_holder, v_asked VARBINARY(1024);
    DECLARE v_bells MEDIUMBLOB;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

-- part: begin
    -- include variables
    START TRANSACTION;
    -- include look

-- part: look
-- Lock the line's row, read the clock behind the lock, and clear away the dead in bounded steps.
    -- include read
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    -- include sweep
    SET v_before = v_last;

-- part: read
-- Lock the line's row. A lone ticket and its follower get rows of their own: they have company now, or are not as they were.
    SELECT size, used, inside, waiting, serial, last, IF(follower = '', soonest, LEAST(soonest, follower_ends)), graves,
           kept, lone <> '' OR follower <> ''
      INTO v_size, v_used, v_inside, v_waiting, v_serial, v_last, v_soonest, v_graves, v_kept, v_is_lone
      FROM aiodlock_lines WHERE line = p_line FOR UPDATE;
    IF v_is_lone THEN
        SET v_serial = v_serial + 2, v_is_lone = 0;
        INSERT INTO aiodlock_tickets (line, id, state, weight, serial, epoch, since, ends, client, owner)
        SELECT line, lone, 1, used, v_serial - 1, last, lone_since, soonest, lone_client, lone_owner
          FROM aiodlock_lines WHERE line = p_line AND lone <> ''
         UNION ALL
        SELECT line, follower, 0, follower_weight, v_serial, 0, follower_since, follower_ends, follower_client, follower_owner
          FROM aiodlock_lines WHERE line = p_line AND follower <> '';
        UPDATE aiodlock_lines SET lone = '', follower = '', serial = v_serial, soonest = v_soonest WHERE line = p_line;
    END IF;

-- part: sweep
-- The dead become tombstones for a minute: to their own join they are expired, not unknown.
    IF v_now >= v_soonest THEN
        UPDATE aiodlock_tickets SET state = 3, ends = v_now + 60000000
         WHERE line = p_line AND state IN (0, 1) AND ends <= v_now ORDER BY ends LIMIT 100;
        DELETE FROM aiodlock_tickets WHERE line = p_line AND state IN (2, 3) AND ends <= v_now LIMIT 100;
        SELECT COALESCE(SUM(weight), 0), COUNT(*) INTO v_used, v_inside
          FROM aiodlock_tickets WHERE line = p_line AND state = 1;
        SELECT COUNT(*) INTO v_waiting FROM aiodlock_tickets WHERE line = p_line AND state = 0;
        SELECT COALESCE(MIN(ends), 9000000000000000), COALESCE(MAX(state) > 1, 0) INTO v_soonest, v_graves
          FROM (SELECT state, MIN(ends) AS ends FROM aiodlock_tickets WHERE line = p_line GROUP BY state) AS lives;
    END IF;

-- part: make
-- A line that was not there. Two who make it at once meet at the row, and the second finds what the first wrote.
    IF v_size IS NULL THEN
        INSERT INTO aiodlock_lines (line, size, soonest, kept)
        VALUES (p_line, 1, 9000000000000000, 0) ON DUPLICATE KEY UPDATE line = p_line;
        -- include read
        -- include sweep
        SET v_before = v_last;
    END IF;

-- part: let_in
-- The rule: the front of the line is inside while the weights fit the size. In bounded steps; the next verb goes on.
    admit: WHILE v_waiting > 0 AND v_used < v_size AND v_steps < 256 DO
        SELECT id, weight, ends, client INTO v_first_id, v_first_weight, v_first_ends, v_first_client
          FROM aiodlock_tickets WHERE line = p_line AND state = 0 ORDER BY serial LIMIT 1;
        IF v_first_ends <= v_now THEN
            UPDATE aiodlock_tickets SET state = 3, ends = v_now + 60000000 WHERE line = p_line AND id = v_first_id;
            SET v_graves = 1;
        ELSEIF v_used + v_first_weight > v_size THEN
            LEAVE admit;
        ELSE
            SET v_last = GREATEST(v_last + 1, v_now DIV 16), v_used = v_used + v_first_weight, v_inside = v_inside + 1;
            SET v_called_id = v_first_id, v_called = v_first_client, v_called_epoch = v_last, v_calls = v_calls + 1;
            UPDATE aiodlock_tickets SET state = 1, epoch = v_last WHERE line = p_line AND id = v_first_id;
        END IF;
        SET v_waiting = v_waiting - 1, v_steps = v_steps + 1;
    END WHILE;

-- part: find
-- Own ticket; v_state stays NULL where there is none.
    SELECT state, weight, serial, epoch, ends, client, asked
      INTO v_state, v_weight, v_own_serial, v_epoch, v_ends, v_client, v_asked
      FROM aiodlock_tickets WHERE line = p_line AND id = p_id;

-- part: end
-- Write the row, and the mail to those let in by this verb, one as a rule; not to v_quiet, whose answer says it.
    UPDATE aiodlock_lines
       SET size = v_size, used = v_used, inside = v_inside, waiting = v_waiting, serial = v_serial, last = v_last,
           soonest = v_soonest, graves = v_graves, kept = IF(v_kept < v_now + v_keep, v_now + v_keep + 60000000, v_kept)
     WHERE line = p_line;
    IF v_calls = 1 THEN
        IF v_called <> '' AND v_called_id <> v_quiet THEN
            INSERT INTO aiodlock_mail (client, word, line, ticket, epoch, company, reason, ends)
            VALUES (v_called, 'I', p_line, v_called_id, v_called_epoch, v_waiting > 0, '', v_now + 60000000);
            SET v_bells = CONCAT_WS(',', v_bells, v_called);
        END IF;
    ELSEIF v_calls > 1 THEN
        INSERT INTO aiodlock_mail (client, word, line, ticket, epoch, company, reason, ends)
        SELECT client, 'I', line, id, epoch, v_waiting > 0, '', v_now + 60000000 FROM aiodlock_tickets
         WHERE line = p_line AND state = 1 AND epoch > v_before AND id <> v_quiet AND client <> '';
        SELECT CONCAT_WS(',', v_bells, GROUP_CONCAT(DISTINCT client)) INTO v_bells FROM aiodlock_tickets
         WHERE line = p_line AND state = 1 AND epoch > v_before AND id <> v_quiet AND client <> '';
    END IF;
    COMMIT;
    IF v_bells <> '' THEN CALL aiodlock_ring(v_bells); END IF;

-- part: answer
-- What the own ticket hears; who waits has just been given its life anew.
    SELECT owner INTO v_holder FROM aiodlock_tickets WHERE line = p_line AND state = 1 ORDER BY serial LIMIT 1;
    SELECT MIN(serial) INTO v_first FROM aiodlock_tickets WHERE line = p_line AND state = 0;
    IF v_first = v_own_serial THEN
        SELECT COALESCE(MIN(ends) - v_now, p_life DIV 3) INTO v_first_ends FROM aiodlock_tickets WHERE line = p_line AND state = 1;
    ELSE
        SET v_first_ends = p_life DIV 3;
    END IF;

-- name: ring
-- Wake the clients in p_bells, 16 bytes each, parted by commas: who holds the name of a bell waits in a query, which ends.
CREATE PROCEDURE aiodlock_ring(IN p_bells MEDIUMBLOB)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_ear, v_at BIGINT DEFAULT 1;
    DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END; -- it has gone meanwhile, or is another user's: it will look
    WHILE v_at < LENGTH(p_bells) DO
        SET v_ear = IS_USED_LOCK(CONCAT('aiodlock:bell:', SUBSTRING(p_bells, v_at, 16))), v_at = v_at + 17;
        IF v_ear IS NOT NULL THEN KILL QUERY v_ear; END IF;
    END WHILE;
END

-- name: join
-- Stand in line, or look where a ticket stands. p_queue 0: enter at once or not at all. p_instead_of leaves in the same step.
CREATE PROCEDURE aiodlock_join(
    IN p_line VARBINARY(320), IN p_id VARBINARY(128), IN p_queue TINYINT, IN p_instead_of VARBINARY(128),
    IN p_weight BIGINT, IN p_size BIGINT, IN p_ttl BIGINT, IN p_life BIGINT,
    IN p_client VARBINARY(16), IN p_owner VARBINARY(1024), IN p_most BIGINT)
SQL SECURITY INVOKER
join_line: BEGIN
    DECLARE v_at BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    -- Nobody here, and nothing remembered of anybody: one statement, which is its own transaction.
    UPDATE aiodlock_lines
       SET size = p_size, used = p_weight, inside = 1, soonest = v_at + p_ttl,
           last = LAST_INSERT_ID(GREATEST(last + 1, v_at DIV 16)),
           lone = p_id, lone_since = v_at, lone_client = p_client, lone_owner = p_owner
     WHERE line = p_line AND inside = 0 AND waiting = 0 AND graves = 0 AND kept >= v_at + p_ttl + 60000000
       AND p_weight <= p_size;
    IF ROW_COUNT() = 1 THEN
        SELECT CONCAT_WS(' ', 'inside', LAST_INSERT_ID(), p_ttl, 0, p_size), NULL;
        LEAVE join_line;
    END IF;
    IF p_weight <= p_size THEN
        INSERT IGNORE INTO aiodlock_lines
            (line, size, used, inside, last, soonest, kept, lone, lone_since, lone_client, lone_owner)
        VALUES (p_line, p_size, p_weight, 1, v_at DIV 16, v_at + p_ttl, v_at + p_ttl + 120000000,
                p_id, v_at, p_client, p_owner);
        IF ROW_COUNT() = 1 THEN
            SELECT CONCAT_WS(' ', 'inside', v_at DIV 16, p_ttl, 0, p_size), NULL;
            -- Each new line pays for clearing away two old ones; some pay for all, because looking costs as well.
            IF v_at DIV 16 MOD 16 = 0 THEN CALL aiodlock_forget(32); END IF;
            LEAVE join_line;
        END IF;
    END IF;
    CALL aiodlock_stand(
        p_line, p_id, p_queue, p_instead_of, p_weight, p_size, p_ttl, p_life, p_client, p_owner, p_most);
END

-- name: stand
-- The whole of join. Its many variables cost more than all of the short way, so they are not there.
CREATE PROCEDURE aiodlock_stand(
    IN p_line VARBINARY(320), IN p_id VARBINARY(128), IN p_queue TINYINT, IN p_instead_of VARBINARY(128),
    IN p_weight BIGINT, IN p_size BIGINT, IN p_ttl BIGINT, IN p_life BIGINT,
    IN p_client VARBINARY(16), IN p_owner VARBINARY(1024), IN p_most BIGINT)
SQL SECURITY INVOKER
stand: BEGIN
    DECLARE v_keep BIGINT DEFAULT p_ttl + 60000000;
    DECLARE v_is_inside TINYINT DEFAULT 0;
    DECLARE v_word CHAR(8);
    -- include variables
    START TRANSACTION;
    -- include follow
    -- include look
    -- include make
    SET v_quiet = p_id;
    IF v_inside + v_waiting = 0 THEN SET v_size = p_size; END IF;
    IF p_instead_of <> '' THEN
        SELECT state, weight, client INTO v_state, v_weight, v_client
          FROM aiodlock_tickets WHERE line = p_line AND id = p_instead_of;
        -- include part_from
        SET v_state = NULL;
    END IF;
    -- include let_in
    -- include find
    IF v_state IS NULL THEN
        SET v_is_inside = v_waiting = 0 AND v_used + p_weight <= v_size;
        SET v_word = CASE
            WHEN p_weight > v_size THEN 'heavy'
            WHEN NOT v_is_inside AND NOT p_queue THEN 'busy'
            WHEN v_inside + v_waiting >= p_most THEN 'full'
        END;
        IF v_word IS NULL THEN
            SET v_serial = v_serial + 1, v_own_serial = v_serial, v_state = v_is_inside, v_epoch = 0;
            IF v_is_inside THEN
                SET v_last = GREATEST(v_last + 1, v_now DIV 16), v_epoch = v_last, v_ends = v_now + p_ttl;
                SET v_inside = v_inside + 1, v_used = v_used + p_weight;
            ELSE
                SET v_waiting = v_waiting + 1, v_ends = v_now + p_life;
            END IF;
            INSERT INTO aiodlock_tickets (line, id, state, weight, serial, epoch, since, ends, client, owner)
            VALUES (p_line, p_id, v_state, p_weight, v_serial, v_epoch, v_now, v_ends, p_client, p_owner);
            SET v_soonest = LEAST(v_soonest, v_ends);
            IF v_waiting = 1 AND NOT v_is_inside THEN
                INSERT INTO aiodlock_mail (client, word, line, ticket, epoch, company, reason, ends)
                SELECT client, 'C', line, id, 0, 1, '', v_now + 60000000 FROM aiodlock_tickets
                 WHERE line = p_line AND state = 1 AND client <> '' ORDER BY serial LIMIT 256;
                SELECT CONCAT_WS(',', v_bells, GROUP_CONCAT(DISTINCT client)) INTO v_bells FROM aiodlock_tickets
                 WHERE line = p_line AND state = 1 AND client <> '';
            END IF;
        END IF;
    ELSEIF v_state > 1 OR v_ends <= v_now THEN
        SET v_word = IF(v_state = 2, 'buried', 'expired');
    ELSEIF v_state = 0 AND NOT p_queue THEN
        DELETE FROM aiodlock_tickets WHERE line = p_line AND id = p_id;
        SET v_waiting = v_waiting - 1, v_word = 'busy';
    ELSEIF v_state = 0 THEN
        UPDATE aiodlock_tickets SET ends = GREATEST(ends, v_now + p_life) WHERE line = p_line AND id = p_id;
    END IF;
    IF v_word IS NOT NULL OR v_state = 0 THEN
        -- include answer
    END IF;
    -- include end
    IF v_word IS NOT NULL THEN
        SELECT v_word, IF(v_word IN ('busy', 'full'), v_holder, NULL);
    ELSEIF v_state = 1 THEN
        SELECT CONCAT_WS(' ', 'inside', v_epoch, v_ends - v_now, v_waiting > 0, v_size), NULL;
    ELSE
        SELECT CONCAT_WS(' ', 'waiting', v_last, v_first_ends, v_inside + v_own_serial - v_first, v_size), v_holder;
    END IF;
END

-- part: follow
-- The first who has to wait behind a lone ticket stands in the line's row as well. The clock may be read before the lock:
-- the answer says when to look, and whoever lets it in judges its life anew.
    IF p_queue AND p_instead_of = '' AND p_most > 1 THEN
        SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        UPDATE aiodlock_lines
           SET waiting = 1, follower = p_id, follower_weight = p_weight, follower_since = v_now,
               follower_ends = v_now + p_life, follower_client = p_client, follower_owner = p_owner
         WHERE line = p_line AND lone NOT IN ('', p_id) AND follower = '' AND graves = 0 AND soonest > v_now
           AND p_weight <= size AND used + p_weight > size AND kept >= v_now + v_keep;
        IF ROW_COUNT() = 1 THEN
            SELECT size, last, soonest, lone_client, lone_owner INTO v_size, v_last, v_soonest, v_called, v_holder
              FROM aiodlock_lines WHERE line = p_line;
            IF v_called <> '' THEN
                INSERT INTO aiodlock_mail (client, word, line, ticket, epoch, company, reason, ends)
                SELECT lone_client, 'C', line, lone, 0, 1, '', v_now + 60000000 FROM aiodlock_lines WHERE line = p_line;
            END IF;
            COMMIT;
            IF v_called <> '' THEN CALL aiodlock_ring(v_called); END IF;
            SELECT CONCAT_WS(' ', 'waiting', v_last, v_soonest - v_now, 1, v_size), v_holder;
            LEAVE stand;
        END IF;
    END IF;

-- part: part_from
-- Take a live ticket out for good; its client is told unless it is the one who asks.
    IF v_state IN (0, 1) THEN
        DELETE FROM aiodlock_tickets WHERE line = p_line AND id = p_instead_of;
        IF v_state = 1 THEN
            SET v_inside = v_inside - 1, v_used = v_used - v_weight;
        ELSE
            SET v_waiting = v_waiting - 1;
        END IF;
        IF v_client NOT IN ('', p_client) THEN
            INSERT INTO aiodlock_mail (client, word, line, ticket, epoch, company, reason, ends)
            VALUES (v_client, 'G', p_line, p_instead_of, 0, 0, '', v_now + 60000000);
            SET v_bells = CONCAT_WS(',', v_bells, v_client);
        END IF;
    END IF;

-- part: tell_next
-- The next one is inside: write that to its client, and wake it.
        IF v_next_client <> '' THEN
            INSERT INTO aiodlock_mail (client, word, line, ticket, epoch, company, reason, ends)
            VALUES (v_next_client, 'I', p_line, v_next, v_last, v_waiting > 1, '', v_now + 60000000);
        END IF;
        COMMIT;
        SET v_ear = IS_USED_LOCK(CONCAT('aiodlock:bell:', v_next_client));
        IF v_ear IS NOT NULL THEN KILL QUERY v_ear; END IF;
        LEAVE leave_line;

-- name: leave
-- Give a place up. p_bury: how long the id is remembered, 0 not at all. No answer.
CREATE PROCEDURE aiodlock_leave(
    IN p_line VARBINARY(320), IN p_instead_of VARBINARY(128), IN p_bury BIGINT, IN p_client VARBINARY(16))
SQL SECURITY INVOKER
leave_line: BEGIN
    DECLARE v_now, v_size, v_last, v_soonest, v_waiting, v_weight, v_ear BIGINT;
    DECLARE v_next VARBINARY(128);
    DECLARE v_next_client VARBINARY(16);
    DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END; -- as in aiodlock_ring
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    SELECT last, LEAST(soonest, follower_ends), waiting, follower, follower_client
      INTO v_last, v_soonest, v_waiting, v_next, v_next_client FROM aiodlock_lines
     WHERE line = p_line AND lone = p_instead_of AND lone_client = p_client AND p_bury = 0 FOR UPDATE;
    -- Alone.
    IF v_waiting = 0 THEN
        UPDATE aiodlock_lines SET used = 0, inside = 0, lone = '' WHERE line = p_line;
        COMMIT;
        LEAVE leave_line;
    END IF;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    -- One follows, and nobody's life has ended.
    IF v_soonest > v_now THEN
        SET v_last = GREATEST(v_last + 1, v_now DIV 16);
        UPDATE aiodlock_lines
           SET used = follower_weight, waiting = 0, last = v_last, soonest = follower_ends, lone = follower,
               lone_since = follower_since, lone_client = follower_client, lone_owner = follower_owner, follower = ''
         WHERE line = p_line;
        -- include tell_next
    END IF;
    -- One inside hands on to the first of those who wait, no other fits, and nobody's life has ended: few statements.
    SELECT l.size, l.last, l.soonest, l.waiting, n.id, n.weight, n.client
      INTO v_size, v_last, v_soonest, v_waiting, v_next, v_weight, v_next_client
      FROM aiodlock_lines AS l JOIN aiodlock_tickets AS n FORCE INDEX (in_order) ON n.line = l.line AND n.state = 0
     WHERE l.line = p_line AND l.inside = 1 AND p_bury = 0 ORDER BY n.serial LIMIT 1 FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    IF v_soonest > v_now AND (v_waiting = 1 OR v_weight = v_size) THEN
        DELETE FROM aiodlock_tickets WHERE line = p_line AND id = p_instead_of AND state = 1 AND client = p_client;
        IF ROW_COUNT() = 1 THEN
            SET v_last = GREATEST(v_last + 1, v_now DIV 16);
            UPDATE aiodlock_tickets SET state = 1, epoch = v_last WHERE line = p_line AND id = v_next;
            UPDATE aiodlock_lines SET used = v_weight, waiting = v_waiting - 1, last = v_last WHERE line = p_line;
            -- include tell_next
        END IF;
    END IF;
    ROLLBACK;
    CALL aiodlock_part(p_line, p_instead_of, p_bury, p_client);
END

-- name: part
-- The whole of leave.
CREATE PROCEDURE aiodlock_part(
    IN p_line VARBINARY(320), IN p_instead_of VARBINARY(128), IN p_bury BIGINT, IN p_client VARBINARY(16))
SQL SECURITY INVOKER
BEGIN
    DECLARE v_keep BIGINT DEFAULT p_bury + 60000000;
    -- include begin
    IF p_bury > 0 THEN
        -- include make
    END IF;
    IF v_size IS NULL THEN
        COMMIT;
    ELSE
        SELECT state, weight, client INTO v_state, v_weight, v_client
          FROM aiodlock_tickets WHERE line = p_line AND id = p_instead_of;
        -- include part_from
        IF p_bury > 0 THEN
            INSERT INTO aiodlock_tickets (line, id, state, weight, serial, epoch, since, ends, client, owner)
            VALUES (p_line, p_instead_of, 2, 0, 0, 0, v_now, v_now + p_bury, '', '')
            ON DUPLICATE KEY UPDATE state = 2, ends = GREATEST(ends, v_now + p_bury);
            SET v_graves = 1, v_soonest = LEAST(v_soonest, v_now + p_bury);
        END IF;
        -- include let_in
        -- include end
    END IF;
END

-- name: renew
-- Keep one ticket alive, at least p_ttl from now if it is inside, p_life if it waits; answer as join does.
CREATE PROCEDURE aiodlock_renew(
    IN p_line VARBINARY(320), IN p_id VARBINARY(128), IN p_ttl BIGINT, IN p_life BIGINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_keep BIGINT DEFAULT p_ttl + 60000000;
    -- include begin
    IF v_size IS NULL THEN
        COMMIT;
        SELECT 'expired', NULL;
    ELSE
        -- include let_in
        -- include find
        IF v_state = 1 AND v_ends > v_now AND v_ends < v_now + p_ttl THEN
            SET v_ends = v_now + p_ttl;
            UPDATE aiodlock_tickets SET ends = v_ends WHERE line = p_line AND id = p_id;
        ELSEIF v_state = 0 AND v_ends > v_now THEN
            UPDATE aiodlock_tickets SET ends = GREATEST(ends, v_now + p_life) WHERE line = p_line AND id = p_id;
            -- include answer
        END IF;
        -- include end
        IF v_state IS NULL OR v_state > 1 OR v_ends <= v_now THEN
            SELECT IF(v_state = 2, 'buried', 'expired'), NULL;
        ELSEIF v_state = 1 THEN
            SELECT CONCAT_WS(' ', 'inside', v_epoch, v_ends - v_now, v_waiting > 0, v_size), v_asked;
        ELSE
            SELECT CONCAT_WS(' ', 'waiting', v_last, v_first_ends, v_inside + v_own_serial - v_first, v_size), v_holder;
        END IF;
    END IF;
END

-- name: weight
-- Give an inside ticket a smaller weight in place; answer as join does, inside or expired.
CREATE PROCEDURE aiodlock_weight(IN p_line VARBINARY(320), IN p_id VARBINARY(128), IN p_weight BIGINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_keep BIGINT DEFAULT 60000000;
    -- include begin
    IF v_size IS NOT NULL THEN
        -- include find
        IF v_state = 1 AND v_ends > v_now AND p_weight < v_weight THEN
            UPDATE aiodlock_tickets SET weight = p_weight WHERE line = p_line AND id = p_id;
            SET v_used = v_used - v_weight + p_weight;
        END IF;
        -- include let_in
        -- include end
    ELSE
        COMMIT;
    END IF;
    IF v_state = 1 AND v_ends > v_now THEN
        SELECT CONCAT_WS(' ', 'inside', v_epoch, v_ends - v_now, v_waiting > 0, v_size), NULL;
    ELSE
        SELECT 'expired', NULL;
    END IF;
END

-- name: size
-- Give a line that has tickets another size: whoever now fits is let in, whoever waits and is too heavy goes. No answer.
CREATE PROCEDURE aiodlock_size(IN p_line VARBINARY(320), IN p_size BIGINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_keep BIGINT DEFAULT 60000000;
    -- include begin
    IF v_inside + v_waiting > 0 THEN
        SET v_size = p_size;
        INSERT INTO aiodlock_mail (client, word, line, ticket, epoch, company, reason, ends)
        SELECT client, 'G', line, id, 0, 0, '', v_now + 60000000 FROM aiodlock_tickets
         WHERE line = p_line AND state = 0 AND weight > p_size AND client <> '';
        SELECT GROUP_CONCAT(DISTINCT client) INTO v_bells FROM aiodlock_tickets
         WHERE line = p_line AND state = 0 AND weight > p_size AND client <> '';
        DELETE FROM aiodlock_tickets WHERE line = p_line AND state = 0 AND weight > p_size;
        SET v_waiting = v_waiting - ROW_COUNT();
        -- include let_in
        -- include end
    ELSE
        COMMIT;
    END IF;
END

-- name: revoke
-- Ask everybody inside to go, by mail or by its next renewal; answer how many.
CREATE PROCEDURE aiodlock_revoke(IN p_line VARBINARY(320), IN p_reason VARBINARY(1024))
SQL SECURITY INVOKER
BEGIN
    DECLARE v_keep BIGINT DEFAULT 60000000;
    -- include begin
    IF v_size IS NOT NULL THEN
        -- include let_in
        INSERT INTO aiodlock_mail (client, word, line, ticket, epoch, company, reason, ends)
        SELECT client, 'A', line, id, 0, 0, p_reason, v_now + 60000000 FROM aiodlock_tickets
         WHERE line = p_line AND state = 1 AND client <> '';
        SELECT GROUP_CONCAT(DISTINCT client) INTO v_bells FROM aiodlock_tickets
         WHERE line = p_line AND state = 1 AND client <> '';
        UPDATE aiodlock_tickets SET asked = p_reason WHERE line = p_line AND state = 1 AND client = '';
        -- include end
    ELSE
        COMMIT;
    END IF;
    SELECT COALESCE(v_inside, 0);
END

-- name: latch
-- Make a latch if it is not there, count it down once per operation, watch it; answer what is left.
CREATE PROCEDURE aiodlock_latch(
    IN p_line VARBINARY(320), IN p_count BIGINT, IN p_down BIGINT, IN p_operation VARBINARY(255), IN p_ttl BIGINT,
    IN p_client VARBINARY(16))
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now, v_ends, v_rest, v_before BIGINT DEFAULT 0;
    DECLARE v_bells MEDIUMBLOB;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    INSERT INTO aiodlock_latches (line, rest, ends) VALUES (p_line, p_count, 0) ON DUPLICATE KEY UPDATE line = p_line;
    SELECT rest, ends INTO v_rest, v_ends FROM aiodlock_latches WHERE line = p_line FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    IF v_ends <= v_now THEN
        DELETE FROM aiodlock_latch_marks WHERE line = p_line;
        SET v_rest = p_count;
    END IF;
    SET v_before = v_rest;
    IF p_client <> '' THEN
        INSERT INTO aiodlock_latch_marks (line, mark) VALUES (p_line, CONCAT('w', p_client))
        ON DUPLICATE KEY UPDATE line = p_line;
    END IF;
    IF p_down > 0 AND v_rest > 0 THEN
        INSERT IGNORE INTO aiodlock_latch_marks (line, mark) VALUES (p_line, CONCAT('o', p_operation));
        IF ROW_COUNT() > 0 THEN SET v_rest = GREATEST(0, v_rest - p_down); END IF;
    END IF;
    UPDATE aiodlock_latches SET rest = v_rest, ends = GREATEST(v_ends, v_now + p_ttl) WHERE line = p_line;
    IF v_before > 0 AND v_rest = 0 THEN
        INSERT INTO aiodlock_mail (client, word, line, ticket, epoch, company, reason, ends)
        SELECT SUBSTRING(mark, 2), 'O', line, '', 0, 0, '', v_now + 60000000 FROM aiodlock_latch_marks
         WHERE line = p_line AND mark LIKE 'w%';
        SELECT GROUP_CONCAT(SUBSTRING(mark, 2)) INTO v_bells FROM aiodlock_latch_marks
         WHERE line = p_line AND mark LIKE 'w%';
    END IF;
    COMMIT;
    IF v_bells <> '' THEN CALL aiodlock_ring(v_bells); END IF;
    SELECT v_rest;
END

-- name: inspect
-- All tickets of lines between p_from and p_to; nothing is swept.
-- answer   line, id, inside, owner, weight, microseconds since it came, microseconds left, epoch
CREATE PROCEDURE aiodlock_inspect(IN p_from VARBINARY(320), IN p_to VARBINARY(320))
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SELECT line, id, state, owner, weight, v_now - since, ends - v_now, epoch
      FROM (SELECT line, id, state, owner, weight, since, ends, epoch, serial FROM aiodlock_tickets
             WHERE line BETWEEN p_from AND p_to AND state IN (0, 1)
             UNION ALL
            SELECT line, lone, 1, lone_owner, used, lone_since, soonest, last, 0 FROM aiodlock_lines
             WHERE line BETWEEN p_from AND p_to AND lone <> ''
             UNION ALL
            SELECT line, follower, 0, follower_owner, follower_weight, follower_since, follower_ends, 0, 0
              FROM aiodlock_lines WHERE line BETWEEN p_from AND p_to AND follower <> '') AS tickets
     WHERE ends > v_now ORDER BY line, state DESC, serial;
END

-- name: take
-- Hold a name for as long as this connection lives. One of ours that the server has not missed yet is ended. Answer 1 or 0.
CREATE PROCEDURE aiodlock_take(IN p_name VARBINARY(64))
SQL SECURITY INVOKER
BEGIN
    DECLARE v_old BIGINT;
    DECLARE v_taken TINYINT DEFAULT GET_LOCK(p_name, 1);
    DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END;
    IF NOT COALESCE(v_taken, 0) THEN
        SET v_old = IS_USED_LOCK(p_name);
        IF v_old IS NOT NULL THEN KILL CONNECTION v_old; END IF;
        SET v_taken = GET_LOCK(p_name, 2);
    END IF;
    SELECT COALESCE(v_taken, 0);
END

-- name: forget
-- Remove what is over, p_steps of each kind at most, each in a transaction of its own; what others use is left out.
CREATE PROCEDURE aiodlock_forget(IN p_steps BIGINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_steps BIGINT DEFAULT p_steps;
    DECLARE v_line VARBINARY(320);
    DECLARE v_latch VARBINARY(320);
    DECLARE v_mail BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK; -- clearing away is nobody's errand: it is tried again
    REPEAT
        SET v_line = NULL, v_latch = NULL, v_mail = NULL, v_steps = v_steps - 1;
        START TRANSACTION;
        SELECT line INTO v_line FROM aiodlock_lines WHERE kept <= v_now ORDER BY kept LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF v_line IS NOT NULL THEN
            DELETE FROM aiodlock_tickets WHERE line = v_line;
            DELETE FROM aiodlock_lines WHERE line = v_line;
        END IF;
        COMMIT;
        START TRANSACTION;
        SELECT line INTO v_latch FROM aiodlock_latches WHERE ends <= v_now ORDER BY ends LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF v_latch IS NOT NULL THEN
            DELETE FROM aiodlock_latch_marks WHERE line = v_latch;
            DELETE FROM aiodlock_latches WHERE line = v_latch;
        END IF;
        COMMIT;
        SELECT id INTO v_mail FROM aiodlock_mail WHERE ends <= v_now ORDER BY id LIMIT 1;
        IF v_mail IS NOT NULL THEN DELETE FROM aiodlock_mail WHERE id = v_mail; END IF;
        COMMIT;
    UNTIL v_steps <= 0 OR (v_line IS NULL AND v_latch IS NULL AND v_mail IS NULL) END REPEAT;
END
