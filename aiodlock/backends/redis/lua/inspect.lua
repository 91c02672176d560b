-- Show who is inside and who waits; changes nothing.
--
-- KEYS[1]  the line
-- ARGV     1 id to go on from, '' for the front; 2 most rows
-- answer   {name in clear or false, id to go on from or '', rows}; a row is
--          {id, owner, weight, microseconds since it joined, microseconds left, epoch or 0 while it waits};
--          false if the ticket to go on from is not there any more
--#include line.lua

open({})
local id = ARGV[1] == '' and head or ARGV[1]
local rows = {}
for _ = 1, tonumber(ARGV[2]) do
  if id == '' then break end
  local record = read(id)
  if not record or record[STATE] > WAITING then return false end
  if record[ENDS] > now then
    local epoch = record[STATE] == INSIDE and record[NUMBER] or 0
    rows[#rows + 1] = { id, record[OWNER], record[WEIGHT], now - record[SINCE], record[ENDS] - now, epoch }
  end
  id = record[NEXT]
end
return { redis.call('HGET', KEY, 'name'), id, rows }
