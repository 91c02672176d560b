-- Give an inside ticket a smaller weight in place; whoever now fits is called.
--
-- KEYS[1]  the line
-- ARGV     1 ticket id; 2 weight
-- answer   as join answers, {4} unless the ticket is inside
--#include line.lua

local id = ARGV[1]
open({ id })
if is_over(records[id]) then expire(id, records[id]) end
sweep()
local record = records[id]
local answer = { EXPIRED }
if record and record[STATE] == INSIDE then
  local weight = math.min(record[WEIGHT], tonumber(ARGV[2]))
  used, record[WEIGHT] = used - record[WEIGHT] + weight, weight
  touch(id)
end
let_in()
if record and record[STATE] == INSIDE then answer = look(id, 0) end
close()
return answer
