-- The bindings of the samplers with every allocation failing in turn.
local oom = require "oom"
local sample = require "ett.sample"

describe("with failing allocations", function()
  it("ett.sample makes tensors", function()
    oom.every_allocation(function()
      local t = sample.tensor(16)
      t:fill(2)
      local view = t:view(1, 4)
      view:set(1, 3)
      local sum = t:sum()
      t:close()
      return sum
    end)
  end)

  it("ett.sample fits surfaces", function()
    oom.every_allocation(function()
      local surface, err = sample.surface({ 0, 0, 1, 0, 0, 1, 1, 1, 0.5, 0.25 }, 2, { 1, 2, 3, 4, 2.5 })
      if not surface then return nil, err end
      local mean = surface:predict { 0.5, 0.5 }
      local held = surface:leave_one_out()
      surface:close()
      return mean + #held
    end)
  end)

  it("ett.sample keeps journals", function()
    local path = os.tmpname()
    oom.every_allocation(function()
      os.remove(path)
      local journal <close>, err = sample.journal(path, "a,b\n")
      if not journal then return nil, err end
      local ok, why = journal:append "1,2"
      if not ok then return nil, why end
      return true
    end)
    os.remove(path)
  end)

  it("ett.cpu runs a kernel", function()
    local usable = require("ett.base.find").load("samplers", "cpu").available()
    if not usable then pending("the CPU kernels need AVX2") return end
    local cpu = require "ett.cpu"
    local d = { batch = 2, m = 3, n = 4, k = 5 }
    oom.every_allocation(function()
      local list = {}
      for i, o in ipairs(cpu.operands("bmm", "forward", d)) do list[i] = sample.tensor(o.count) end
      cpu.run("bmm", "forward", d, list)
      return #list
    end)
  end)
end)
