-- How clients are called: included textually wherever somebody is.

-- In a cluster the channel carries a hash tag of the line's slot, and only that server's subscribers need to hear.
local function publish(channel, text)
  redis.call(string.find(channel, '{', 1, true) and 'SPUBLISH' or 'PUBLISH', channel, text)
end

-- Tell the client at *channel* that its ticket is inside, and whether others wait.
local function call(channel, id, epoch, company)
  local name = string.find(KEY, '{#', 1, true) and redis.call('HGET', KEY, 'name') or KEY
  publish(channel, 'I ' .. string.format('%.0f', epoch) .. (company and ' 1 ' or ' 0 ') .. name .. ' ' .. id)
end
