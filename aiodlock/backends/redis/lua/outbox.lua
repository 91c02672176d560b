-- Drop what a relay has published, and read what comes next.
--
-- KEYS     the stock, see goods.lua
-- ARGV     1-4 its terms; 5 id of the last entry that is done with, or ''; 6 most entries; 7 a microsecond up to which it
--          will write no more, or 0
-- answer   JSON: [microsecond up to which it will write no more, [[id, movements as JSON], ...] oldest first].
--          Or ["differs", terms]

--#include goods.lua

if ARGV[5] ~= '' then
  redis.call('XTRIM', OUTBOX, 'MINID', ARGV[5])
  redis.call('XDEL', OUTBOX, ARGV[5])
end
-- A write of ours, so that a WAIT behind this call also speaks of all that was written before it.
books[WRITTEN] = math.max(books[WRITTEN], micros, tonumber(ARGV[7]))
if packed or is_part then redis.call('HSET', STOCK, 'stock', cmsgpack.pack(books)) end
if not packed and is_part then redis.call('PEXPIREAT', STOCK, last_day()) end
local entries = redis.call('XRANGE', OUTBOX, '-', '+', 'COUNT', ARGV[6])
if not entries[1] and not books[OPEN] then redis.call('DEL', OUTBOX) end
local rows = {}
for i, entry in ipairs(entries) do rows[i] = { entry[1], entry[2][2] } end
return cjson.encode({ scores[books[WRITTEN]], rows })
