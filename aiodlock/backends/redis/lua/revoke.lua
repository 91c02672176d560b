-- Ask every ticket inside to go.
--
-- KEYS[1]  the line
-- ARGV     1 reason
-- answer   how many were asked

local KEY = KEYS[1]
local ids = {}
--#include clock.lua
--#include header.lua
--#include line.lua

sweep()
let_in()
local id = line.head
for _ = 1, line.inside do
  local record = read(id)
  tell(record.client, 'A ' .. #id .. ' ' .. id .. ARGV[1])
  id = record.next
end
close()
return line.inside
