-- Give a place up, in any state, any number of times; whoever now fits is inside in the same step. Many tickets in one call.
--
-- KEYS     the line of each ticket
-- ARGV     per ticket: id; terms, packed: microseconds to remember the id, 0 not to bury it; the client's channel, or ''
-- answer   per ticket: nothing; or an error, which is this ticket's alone

--#include clock.lua
local has_written = false

local function leave(KEY, id, terms)
  local remembered, client = struct.unpack('<ds', terms)
  --#include header.lua

  -- The only one inside goes, and there is nothing to sweep: the two ways below are the same as the general one, at half its
  -- price.
  if (form == ONE or form == TWO) and remembered == 0 then -- nobody to link; who waits fits, and nobody else does
    local _, last, kept, size, _, ends, _, head, own, _, rest = struct.unpack(LONE, header)
    local weight, life, since, first, channel, owner = 0, FAR
    if form == TWO then weight, life, since, first, channel, owner = struct.unpack(SECOND, header, rest) end
    if head == id and own == client and now < ends and now < life then
      local is_wrong = form == ONE and (now + KEPT > kept or kept > now + KEPT + 3 * SLACK) -- else it was set for who waits
      if is_wrong then kept = now + KEPT + SLACK end
      if form == ONE then
        header = struct.pack(EMPTY, NONE, last, kept)
      else
        last = math.max(last + 1, math.floor(now / 16))
        header = struct.pack(LONE, ONE, last, kept, size, weight, life, since, first, channel, owner)
      end
      if not has_written then redis.call('HDEL', KEY, '') end -- see take_no_memory
      has_written = true
      redis.call('HSET', KEY, 'line', header)
      if is_wrong then redis.call('PEXPIREAT', KEY, math.ceil(kept / 1000)) end
      if form == TWO and channel ~= '' then
        --#include call.lua
        call(channel, first, last, false)
      end
      return
    end
  end
  if form == SEVERAL and remembered == 0 then -- one who fills the line follows: nobody else to call
    local _, size, last, _, inside, waiting, serial, soonest, _, kept, graves, head, first, tail, _, _, grave, newest =
      struct.unpack(HEADER, header)
    local pair = inside == 1 and waiting > 0 and head == id and now < soonest and
      redis.call('HMGET', KEY, 't' .. id, 't' .. first)
    if pair and client == select(9, struct.unpack(RECORD, pair[1])) then
      local _, weight, ends, since, _, nth, _, next, channel, owner = struct.unpack(RECORD, pair[2])
      if weight == size and ends > now then
        local till = math.max(ends + KEPT, graves)
        local is_late = till > kept
        if is_late then kept = till + SLACK end
        last = math.max(last + 1, math.floor(now / 16))
        if waiting == 1 and grave == '' then
          redis.call('HDEL', KEY, 't' .. id, 't' .. first)
          redis.call('HSET', KEY, 'line', struct.pack(LONE, ONE, last, kept, size, weight, ends, since, first, channel, owner))
        else
          redis.call('HDEL', KEY, 't' .. id)
          redis.call('HSET', KEY,
            'line', struct.pack(HEADER, SEVERAL,
              size, last, weight, 1, waiting - 1, serial, ends, FAR, kept, graves, first, next, tail, '', '', grave, newest),
            't' .. first, struct.pack(RECORD, 0, weight, ends, since, last, nth, '', next, channel, owner))
        end
        if is_late then redis.call('PEXPIREAT', KEY, math.ceil(kept / 1000)) end
        --#include call.lua
        if channel ~= '' then call(channel, first, last, waiting > 1) end
        return
      end
    end
  end
  local ids = { id }
  --#include line.lua

  part(id, client)
  if remembered > 0 then bury(id, 1, now + remembered) take_no_memory() end
  sweep()
  let_in()
  close()
end

--#include each.lua
return each(leave)
