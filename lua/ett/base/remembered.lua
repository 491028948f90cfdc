--- A function of one value that computes each answer once.
---
--- Answers of tables are forgotten with the tables. `compute` must not return nil.
return function(compute)
  local known = setmetatable({}, { __mode = "k" })
  return function(of)
    local answer = known[of]
    if answer == nil then
      answer = compute(of)
      known[of] = answer
    end
    return answer
  end
end
