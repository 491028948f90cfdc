-- Traces left out: predicted without samples, and with those of the other traces.
local left_out = require "ett.loop.left_out"
local maker = require "trace_maker"
local trace_gpt = require "trace_gpt"

local function recording(more)
  local options = { hidden = 512, heads = 8, layers = 2, seq = 128, batch = 4, vocab = 8192,
    times = function(_, pass) return pass == "backward" and 50 or 25 end }
  for name, value in pairs(more or {}) do options[name] = value end
  return trace_gpt.new(options):recording { rank = 0 }
end

--- fn(folders) with a folder of each recording.
local function with(recordings, fn, folders)
  folders = folders or {}
  if #folders == #recordings then return fn(folders) end
  maker.with({ recordings[#folders + 1] }, function(folder)
    folders[#folders + 1] = folder
    with(recordings, fn, folders)
  end)
end

describe("ett.loop.left_out", function()
  local options = { cluster = require("ett.profile.cluster").get "dgx_h100", device = "NVIDIAH100" }

  it("predicts a trace by the samples of the others, not by its own", function()
    local slow = recording { layers = 3, times = function(_, pass) return pass == "backward" and 75 or 37.5 end }
    with({ recording(), recording { layers = 3 }, slow }, function(folders)
      local list = left_out.measure({ folders[1], folders[2] }, options)
      for _, row in ipairs(list) do
        assert.is_true(math.abs(row.without.error) > 0.1)
        assert.near(0, row.with.error, 1e-3)
        assert.near(row.without.measured_seconds, row.with.measured_seconds, 1e-12)
      end
      assert.near(0, left_out.medians(list).with, 1e-3)
      list = left_out.measure({ folders[1], folders[3] }, options)
      assert.near(0.5, list[1].with.error, 1e-3)
      assert.near(-1 / 3, list[2].with.error, 1e-3)
    end)
  end)

  it("names traces that cannot be compared; two must be of one device", function()
    local kernels = maker.new { rank = 0 }
    kernels:kernel("k", 100, 10)
    with({ recording(), recording(), kernels }, function(folders)
      local list = left_out.measure(folders, options)
      assert.is_truthy(list[1].with and list[2].with)
      assert.matches("does not show the model's layers=[^;]+$", list[3].reason)
      assert.is_nil(list[3].with)
      assert.error_matches(function() left_out.measure({ folders[1] }, options) end, "needs two traces or more")
    end)
  end)
end)
