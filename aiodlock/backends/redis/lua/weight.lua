-- Give an inside ticket a smaller weight in place; whoever now fits is called.
--
-- KEYS[1]  the line
-- ARGV     1 ticket id; 2 weight
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
  local weight = math.min(record.weight, tonumber(ARGV[2]))
  line.used, record.weight = line.used - record.weight + weight, weight
  touch(id)
  let_in()
end
local answer = is_inside and look(id, 0) or { 'expired' }
close()
return answer
