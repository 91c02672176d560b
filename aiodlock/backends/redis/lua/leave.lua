-- Give a place up, in any state, any number of times; whoever now fits is inside in the same step.
--
-- KEYS[1]  the line
-- ARGV     1 ticket id; 2 microseconds to remember the id, '0' not to bury it; 3 the client's channel, or ''
-- answer   nothing
--#include line.lua

local id, remembered = ARGV[1], tonumber(ARGV[2])

open({ id })
part(id, ARGV[3])
if remembered > 0 then bury(id, BURIED, now + remembered) end
sweep()
let_in()
close()
