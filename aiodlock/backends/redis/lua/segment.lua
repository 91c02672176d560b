-- What the segments of a stock have to do with each other, each on a server of its own.
--
-- KEYS     the segment, see goods.lua
-- ARGV     1-4 its terms; 5 what to do, 6 with what, as JSON:
--   look     []   do all that is due
--   tell     [first opened, number of the sale, is it open, when it goes]   hear of the sale from segment 0, unless it is old
--   send     [to, quantity]   send what there is of it
--   arrive   [first opened, from, all that it ever sent here, ...]   see moves.lua
--   moves    []
--   refuse   [order, buyer, left in all, the order that was in its way or '', ...]   remember refusals of unknown orders
-- answer   JSON: [[first opened, number of the sale, is it open, when it goes], [left, all that ever came in, sent, arrived], more].
--          more of send: all that was ever sent there; of moves: flat lists of all sent to each and of all arrived from each.
--          Or ["differs", terms]

--#include goods.lua
--#include moves.lua

local told = cjson.decode(ARGV[6])

local function begin_anew()
  redis.call('DEL', STOCK, DUE)
  left[1], total = 0, 0
  for _, at in ipairs({ LOADED, ACCEPTED, BACK, FORGOTTEN, SENT, ARRIVED }) do books[at] = 0 end
end

local function flat(counts)
  local list = {}
  for segment, count in pairs(counts) do list[#list + 1], list[#list + 2] = segment, count end
  return list
end

local DO = {
  look = function()
    while do_due() do end
  end,
  tell = function()
    if told[2] <= books[SALE] then return end
    if books[BORN] ~= 0 and books[BORN] ~= told[1] then begin_anew() end
    books[BORN], books[SALE], books[OPEN], books[ENDS] = told[1], told[2], told[3], told[4]
    is_changed = true
    if books[OPEN] then
      for _, key in ipairs({ STOCK, DUE }) do redis.call('PERSIST', key) end
    end
  end,
  send = function()
    local moves, to, some = read_moves(), told[1], math.min(told[2], left[1])
    moves[1][to] = (moves[1][to] or 0) + some
    left[1], total, books[SENT] = left[1] - some, total - some, books[SENT] + some
    set('moves', cmsgpack.pack(moves))
    return moves[1][to]
  end,
  arrive = function() arrive(told) end,
  moves = function()
    local moves = read_moves()
    return { flat(moves[1]), flat(moves[2]) }
  end,
  refuse = function()
    for i = 1, #told, 4 do
      if not read(told[i]) then
        save_order(told[i], { REFUSED, told[i + 1], 0, 0, told[i + 2], now + memory, told[i + 3] })
      end
    end
  end,
}

local more = DO[ARGV[5]]()
save()
-- As text where a number has more digits than JSON is given here.
local came_in = books[LOADED] + books[BACK] + books[ARRIVED]
local sale = { scores[books[BORN]], scores[books[SALE]], books[OPEN], books[ENDS] }
return cjson.encode({ sale, { left[1], came_in, books[SENT], books[ARRIVED] }, more })
