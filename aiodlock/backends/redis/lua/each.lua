-- Does a verb for many tickets: included textually. KEYS has the line of each, ARGV two arguments for each.
--
-- One that fails, because its key holds something else or the memory is full, does not keep the others from being done.

local function each(verb)
  local answers = {}
  for i, key in ipairs(KEYS) do
    local is_done, answer = pcall(verb, key, ARGV[2 * i - 1], ARGV[2 * i])
    if not is_done and type(answer) ~= 'table' then answer = { err = answer } end -- Lua's own, or of an older server
    answers[i] = answer or false
  end
  return answers
end
