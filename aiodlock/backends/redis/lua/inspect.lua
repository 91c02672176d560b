-- Show who is inside and who waits; changes nothing.
--
-- KEYS[1]  the line
-- ARGV     1 id to go on from, '' for the front; 2 most rows
-- answer   {name in clear or false, id to go on from or '', rows}; a row is
--          {id, owner, weight, microseconds since it joined, microseconds left, epoch or 0 while it waits};
--          false if the ticket to go on from is not there any more

local KEY = KEYS[1]
local ids = {}
--#include clock.lua
--#include header.lua
--#include line.lua

local id = ARGV[1] == '' and line.head or ARGV[1]
local rows = {}
for _ = 1, tonumber(ARGV[2]) do
  if id == '' then break end
  local record = read(id)
  if not record or record.gone > 0 then return false end
  if record.ends > now then
    rows[#rows + 1] = { id, record.owner, record.weight, now - record.since, record.ends - now, record.epoch }
  end
  id = record.next
end
return { redis.call('HGET', KEY, 'name'), id, rows }
