-- Open, fill up, even out, close or look at a stock.
--
-- KEYS     the stock, see goods.lua
-- ARGV     1-4 its terms; 5 what to do: 'load' unless it is open, 'add' if it is, 'rebalance', 'close', 'remaining';
--          6 quantity; 7 id of the load or add, which is done once
-- answer   JSON: [true if it was done, what is left in each segment]. Or ["differs", terms]

--#include goods.lua

do_much_due()

local function spread(quantity, first)
  local share, rest = math.floor(quantity / segments), quantity % segments
  for i = 1, segments do left[i] = left[i] + share + ((i - 1 - first) % segments < rest and 1 or 0) end
end

local function put_in(quantity)
  spread(quantity, books[LOADED] % segments)
  total, books[LOADED] = total + quantity, books[LOADED] + quantity
  set('p' .. ARGV[7], '1')
  plan('p' .. ARGV[7], now + memory)
end

local function number_sale()
  books[SALE] = math.max(books[SALE] + 1, micros)
end

local DO = {
  load = function()
    if redis.call('HEXISTS', STOCK, 'p' .. ARGV[7]) == 1 then return true end
    if books[OPEN] then return false end
    books[OPEN], books[ENDS] = true, 0
    if books[BORN] == 0 then books[BORN] = micros end
    number_sale()
    put_in(tonumber(ARGV[6]))
    for _, key in ipairs({ STOCK, DUE }) do redis.call('PERSIST', key) end
    return true
  end,
  add = function()
    local is_done = redis.call('HEXISTS', STOCK, 'p' .. ARGV[7]) == 1
    if books[OPEN] and not is_done then put_in(tonumber(ARGV[6])) end
    return books[OPEN] or is_done
  end,
  rebalance = function()
    for i = 1, segments do left[i] = 0 end
    spread(total, 0)
    is_changed = total > 0
    return true
  end,
  close = function()
    if not books[OPEN] then return true end
    is_changed, books[OPEN], books[ENDS] = true, false, now + 3 * memory
    number_sale()
    return true
  end,
  remaining = function() return true end,
}

local done = DO[ARGV[5]]()
save()
return cjson.encode({ done, left })
