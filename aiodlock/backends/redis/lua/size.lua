-- Give a line that has tickets another size; whoever now fits is called, whoever is too heavy is gone and told.
--
-- KEYS[1]  the line
-- ARGV     1 size
-- answer   nothing
--#include line.lua

open({})
sweep()
if inside + waiting > 0 then
  local shrinks = tonumber(ARGV[1]) < size
  size, dirty = tonumber(ARGV[1]), true
  local id = shrinks and first or ''
  while id ~= '' do
    local record = read(id)
    if record[WEIGHT] > size then
      drop(id, record)
      tell(record[CLIENT], 'G ' .. id)
    end
    id = record[NEXT]
  end
end
let_in()
close()
