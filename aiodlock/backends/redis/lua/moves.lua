-- Articles that move between the segments of a stock, each on a server of its own; included behind goods.lua.
--
-- The field `moves` of the stock has two tables: all that was ever sent to each other segment, and all that ever arrived from
-- each. Segments are numbered from 0. Both only grow, so that a count which is told late or twice brings nothing twice.

local function read_moves()
  local packed = redis.call('HGET', STOCK, 'moves')
  return packed and cmsgpack.unpack(packed) or { {}, {} }
end

-- Take in what is new: [when the stock was first opened, a segment, all that it ever sent here, another segment, ...].
local function arrive(told)
  if told[1] ~= books[BORN] or not told[2] then return end
  local moves = read_moves()
  for i = 2, #told, 2 do
    local fresh = told[i + 1] - (moves[2][told[i]] or 0)
    if fresh > 0 then
      moves[2][told[i]] = told[i + 1]
      left[1], total, books[ARRIVED] = left[1] + fresh, total + fresh, books[ARRIVED] + fresh
    end
  end
  set('moves', cmsgpack.pack(moves))
end
