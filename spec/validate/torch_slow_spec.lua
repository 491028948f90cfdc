-- `ett validate --backend torch`: a PyTorch program without ett code is recorded, read and predicted.
local command = require "command"
local ended = command.ended
local find = require "ett.base.find"
local host = require "ett.host"
local json = require "ett.json"
local quote = require("ett.base.shell").quote
local torch = require "ett.validate.torch"

local python, reason = find.load("samplers", "torch").interpreter()

describe("ett validate --backend torch", function()
  local folder = command.each_folder(_ENV)

  for layout, count in pairs { ["1x1"] = 2, ["2x1"] = 1 } do
    it("reads every plan off its traces and predicts steps of other sizes, " .. layout, function()
      if not python then pending(reason) return end
      local text = ended(0, command.ett(folder, "validate --backend torch --layouts " .. layout
        .. " --scale 0.17 --configurations " .. count .. " --steps 2 --json --out out 2>err || (cat err; false)",
        "timeout 600"))
      local group = assert(json.decode(text)).groups[1]
      assert.equal(count, #group.rows)
      assert.equal(group.fields_read, group.fields_right)
      assert.is_true(group.fields_read >= 4 * 9)
      -- Every sampled size is recorded once in each of the first two turns.
      local files = command.shell(("ls %s/out/samples%d/trace_4"):format(folder, layout == "2x1" and 2 or 1))
      local recorded = select(2, files:gsub("worker0", ""))
      assert.equal(2, recorded, files)
      for _, row in ipairs(group.rows) do
        -- The machine may be busy: only absurd times are faults here.
        local ratio = row.predicted_seconds / row.measured_seconds
        assert.is_true(ratio > 0.05 and ratio < 20, ratio)
        assert.is_true(row.last_loss < row.first_loss + 1)
        assert.is_true(row.foreign_percent >= 0 and row.foreign_percent <= 100, row.foreign_percent)
      end
    end)
  end

  it("refuses layouts and options that it does not have", function()
    local text = ended(2, command.ett(folder, "validate --backend torch --layouts 1x2"))
    assert.matches("has the layouts 1x1 and 2x1, got '1x2'", text)
    assert.matches("trains in fp32", ended(2, command.ett(folder, "validate --backend torch --precision bf16")))
    text = ended(2, command.ett(folder, "validate --backend torch --thorough"))
    assert.matches("%-%-thorough is for the back end cpu; torch always runs all", text)
  end)
end)

it("a step takes no less than its processor time, however long its threads were delayed", function()
  if not python then pending(reason) return end
  local code = [[
import contextlib, time
import train
train.delayed = lambda: 1e3 * time.perf_counter()
case = {"layers": 2, "hidden": 64, "heads": 2, "seq": 32, "batch": 2, "vocab": 96}
training = train.Training(case, {"threads": 1}, 0, 1)
training.timed("alone", contextlib.nullcontext())
spent = time.process_time()
training.timed("alone", contextlib.nullcontext())
spent = time.process_time() - spent
print(0.5 * spent < training.seen["alone"][1][0] <= spent)]]
  local words = ("cd %s && OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 %s -B -c %s"):format(
    quote(host.root .. "/samplers/torch"), quote(python), quote(code))
  assert.equal("True\n", command.shell(words))
end)

it("the sampled sizes are around those of the report and never the same", function()
  local sizes = require("ett.validate").sizes.torch
  for _, c in ipairs(torch.sampled_sizes(sizes, 40)) do
    assert.equal(0, c[2] % c[3])
    for _, other in ipairs(sizes) do
      local same = true
      for i = 2, 7 do same = same and c[i] == other[i] end
      assert.is_false(same)
    end
  end
end)
