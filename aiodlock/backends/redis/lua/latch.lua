-- Make a latch if it is not there, count it down once per operation, watch it.
--
-- KEYS[1]  one hash: latch (left, ends, watchers), o<operation>, w<channel>, n<1..watchers> channel, name if KEYS[1] holds a hash
-- ARGV     1 name in clear if KEYS[1] holds its hash, else ''; 2 count; 3 down, '0' only looks; 4 operation;
--          5 ttl in microseconds; 6 the client's channel, or ''
-- answer   what is left

local KEY = KEYS[1]
local operation, client = 'o' .. ARGV[4], ARGV[6]
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]

local latch, done, known = unpack(redis.call('HMGET', KEY, 'latch', operation, 'w' .. client))
local left, ends, watchers = tonumber(ARGV[2]), 0, 0
if latch then left, ends, watchers = struct.unpack('<ddd', latch) end
if latch and ends <= now then
  redis.call('DEL', KEY)
  left, ends, watchers, done, known = tonumber(ARGV[2]), 0, 0, false, false
end

local fields = {}
if not latch and ARGV[1] ~= '' then fields = { 'name', ARGV[1] } end
if not known and client ~= '' then
  watchers = watchers + 1
  fields[#fields + 1], fields[#fields + 2] = 'w' .. client, watchers
  fields[#fields + 1], fields[#fields + 2] = 'n' .. watchers, client
end
local before, down = left, tonumber(ARGV[3])
if down > 0 and left > 0 and not done then
  left = math.max(0, left - down)
  fields[#fields + 1], fields[#fields + 2] = operation, ARGV[3]
end
ends = math.max(ends, now + tonumber(ARGV[5]))
redis.call('HSET', KEY, 'latch', struct.pack('<ddd', left, ends, watchers), unpack(fields))
redis.call('PEXPIREAT', KEY, math.ceil(ends / 1000))

if before > 0 and left == 0 then
  local name = ARGV[1] ~= '' and ARGV[1] or KEY
  for i = 1, watchers do
    local channel = redis.call('HGET', KEY, 'n' .. i)
    redis.call(string.find(channel, '{', 1, true) and 'SPUBLISH' or 'PUBLISH', channel, 'O ' .. name)
  end
end
return left
