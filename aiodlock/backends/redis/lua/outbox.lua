-- Drop what a relay has published, and read what comes next.
--
-- KEYS     the stock, see goods.lua
-- ARGV     1-4 its terms; 5 id of the last entry that is done with, or ''; 6 most entries
-- answer   JSON: [[id, movements as JSON], ...], oldest first. Or ["differs", terms]

--#include goods.lua

if ARGV[5] ~= '' then
  redis.call('XTRIM', OUTBOX, 'MINID', ARGV[5])
  redis.call('XDEL', OUTBOX, ARGV[5])
end
-- A write of ours, so that a WAIT behind this call also speaks of all that was written before it.
if packed then redis.call('HSET', STOCK, 'read', scores[now]) end
local entries = redis.call('XRANGE', OUTBOX, '-', '+', 'COUNT', ARGV[6])
if not entries[1] and not books[OPEN] then redis.call('DEL', OUTBOX) end
local rows = {}
for i, entry in ipairs(entries) do rows[i] = { entry[1], entry[2][2] } end
return rows[1] and cjson.encode(rows) or '[]'
