--- Writes the test rows of each split of the hold-out, for spec/bench/holdout_reference.py:
---   ett run spec/bench/support/holdout_splits.lua > splits.txt
--- One line per file and split: initial, path, split, then a character per row (1: tested).
local holdout = require "ett.profile.holdout"
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/bench/support/?.lua"
for _, file in ipairs(require("shared_samples").read()) do
  for _, split in ipairs(holdout.splits) do
    local marks = {}
    for i, test in ipairs(holdout.test_rows(file, split)) do marks[i] = test and "1" or "0" end
    print(file.cluster, file.label, file.path, split, table.concat(marks))
  end
end
