-- Keep tickets of one line alive and answer for each what join would; none is created, no life is shortened.
--
-- KEYS[1]  the line
-- ARGV     per ticket: id; ttl and waiting life in microseconds
-- answer   per ticket, in order: as join answers

local KEY = KEYS[1]
local ids = {}
for i = 1, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
--#include clock.lua
--#include header.lua
--#include line.lua

for _, id in ipairs(ids) do
  if is_over(records[id]) then expire(id) end
end
sweep()
let_in()
for i, id in ipairs(ids) do
  local record = records[id]
  if record and record.epoch > 0 then live_until(id, math.max(record.ends, now + tonumber(ARGV[3 * i - 1]))) end
end
take_no_memory()
local answers = {}
for i, id in ipairs(ids) do answers[i] = look(id, tonumber(ARGV[3 * i])) end
close()
return answers
