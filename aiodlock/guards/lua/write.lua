-- Run a command on a key, unless somebody with a larger fence wrote there before.
--
-- KEYS     1 the key to write; 2 where its newest fence is kept
-- ARGV     1 fence, 19 digits: a number of Lua is too small for it, but words of one length compare like numbers;
--          2 command; then its arguments after the key
-- answer   {1, reply}, or {0, newest fence}: refused, nothing was done

local newest = redis.call('GET', KEYS[2])
if newest and ARGV[1] < newest then return { 0, newest } end
local reply = redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3)) -- an error ends the script before anything is kept
redis.call('SET', KEYS[2], ARGV[1])
return { 1, reply }
