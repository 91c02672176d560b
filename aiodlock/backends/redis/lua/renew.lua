-- Keep tickets of one line alive and answer for each what join would; none is created, no life is shortened.
--
-- KEYS[1]  the line
-- ARGV     per ticket: id; ttl and waiting life in microseconds
-- answer   per ticket, in order: as join answers
--#include line.lua

local ids = {}
for i = 1, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
open(ids)
for _, id in ipairs(ids) do
  if is_over(records[id]) then expire(id, records[id]) end
end
sweep()
let_in()

local answers = {}
for i, id in ipairs(ids) do
  local record = records[id]
  if record and record[STATE] == INSIDE then
    live_until(id, record, math.max(record[ENDS], now + tonumber(ARGV[3 * i - 1])))
  end
  answers[i] = look(id, tonumber(ARGV[3 * i]))
end
close()
return answers
