-- Ask every ticket inside to go.
--
-- KEYS[1]  the line
-- ARGV     1 reason
-- answer   how many were asked
--#include line.lua

open({})
sweep()
let_in()
local id = head
for _ = 1, inside do
  local record = read(id)
  tell(record[CLIENT], 'A ' .. #id .. ' ' .. id .. ARGV[1])
  id = record[NEXT]
end
close()
return inside
