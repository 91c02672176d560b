-- Give an inside ticket a larger epoch, if this one is, and let no later ticket have a smaller one.
--
-- KEYS[1]  the line
-- ARGV     1 ticket id; 2 epoch
-- answer   as join answers, {'expired'} unless the ticket is inside

local KEY = KEYS[1]
local id = ARGV[1]
local ids = { id }
--#include clock.lua
--#include header.lua
--#include line.lua

if is_over(records[id]) then expire(id) end
sweep()
let_in()
local record = records[id]
local is_inside = record and record.epoch > 0
if is_inside then
  record.epoch = math.max(record.epoch, tonumber(ARGV[2]))
  line.last = math.max(line.last, record.epoch)
  touch(id)
end
local answer = is_inside and look(id, 0) or { 'expired' }
close()
return answer
