-- Give a line that has tickets another size; whoever now fits is called, whoever is too heavy is gone and told.
--
-- KEYS[1]  the line
-- ARGV     1 size
-- answer   nothing

local KEY = KEYS[1]
local ids = {}
--#include clock.lua
--#include header.lua
--#include line.lua

local new = tonumber(ARGV[1])
sweep()
let_in()
if line.inside + line.waiting > 0 then
  local id = new < line.size and line.first or '' -- all who wait, however many: it is rare
  line.size, line.dirty = new, true
  while id ~= '' do
    local record = read(id)
    if record.weight > new then part(id) end
    id = record.next
  end
end
let_in()
close()
