-- Groups of ranks against the coordinates of every rank, counted out in the plan's order.
local ranks = require "ett.plan.ranks"

-- The coordinates of a rank among the axes of dense layers, or of experts.
local function coordinates(p, rank, of_experts)
  local etp, own = p.etp or p.tp, {}
  local size = of_experts and { tp = etp, cp = 1, ep = p.ep, dp = p.tp * p.cp * p.dp // (etp * p.ep), pp = p.pp }
    or { tp = p.tp, cp = p.cp, ep = 1, dp = p.dp, pp = p.pp }
  for axis in p.rank_order:gmatch "[^-]+" do own[axis], rank = rank % size[axis], rank // size[axis] end
  return own
end

-- Of each group: whether experts number it, and the axes in which its ranks differ.
local groups = { tp = { false, tp = true }, cp = { false, cp = true }, dp = { false, dp = true },
  data = { false, cp = true, dp = true }, pp = { false, pp = true }, etp = { true, tp = true },
  ep = { true, ep = true }, ["expert data"] = { true, dp = true } }

local function brute_force(p, name, rank, world)
  local group, list = groups[name], {}
  local mine = coordinates(p, rank, group[1])
  for other = 0, world - 1 do
    local own, same = coordinates(p, other, group[1]), true
    for axis, at in pairs(own) do same = same and (group[axis] or at == mine[axis]) end
    if same then list[#list + 1] = other end
  end
  return list
end

describe("the ranks of a group", function()
  for _, p in ipairs {
    { tp = 2, cp = 2, dp = 4, ep = 2, pp = 2, etp = 1, rank_order = "tp-cp-ep-dp-pp" },
    { tp = 2, cp = 1, dp = 4, ep = 1, pp = 3, rank_order = "tp-cp-ep-pp-dp" },
    { tp = 4, cp = 2, dp = 2, ep = 1, pp = 2, rank_order = "cp-tp-ep-dp-pp" },
    { tp = 2, cp = 2, dp = 2, ep = 4, pp = 2, etp = 1, rank_order = "pp-cp-ep-tp-dp" },
  } do
    it("are those that differ in its axes alone: " .. p.rank_order, function()
      local world = p.tp * p.cp * p.dp * p.pp
      for name in pairs(groups) do
        for rank = 0, world - 1 do
          local list = ranks.group(p, name, rank)
          table.sort(list)
          assert.same(brute_force(p, name, rank, world), list, name)
          assert.equal(coordinates(p, rank).pp + 1, ranks.stage_of(p, rank))
        end
      end
    end)
  end

  it("of a part of the context ranks are neighbours of that axis, or each the same of every neighbours", function()
    for _, order in ipairs { "tp-cp-ep-dp-pp", "cp-tp-ep-dp-pp", "tp-dp-cp-ep-pp" } do
      local p = { tp = 2, cp = 8, cp_ulysses = 2, dp = 2, ep = 1, pp = 1, rank_order = order }
      for name, same in pairs { ["cp ulysses"] = function(a, b) return a // 2 == b // 2 end,
        ["cp ring"] = function(a, b) return a % 2 == b % 2 end } do
        for rank = 0, 31 do
          local mine, wanted = coordinates(p, rank), {}
          for _, other in ipairs(brute_force(p, "cp", rank, 32)) do
            if same(mine.cp, coordinates(p, other).cp) then wanted[#wanted + 1] = other end
          end
          local list = ranks.group(p, name, rank)
          table.sort(list)
          assert.same(wanted, list, name)
        end
      end
    end
  end)

  it("have an order that names every axis; axes of one rank are added where the default has them", function()
    assert.equal("tp-cp-ep-dp-pp", ranks.completed("tp-dp-pp", { tp = 2, dp = 2, pp = 2 }))
    assert.equal("pp-tp-cp-ep-dp", ranks.completed("pp-tp", { tp = 2, pp = 2 }))
    assert.equal("tp-cp-ep-dp", ranks.completed("tp-dp", { pp = 2 })) -- a rule refuses it, as the next
    assert.equal("tp-sp", ranks.completed("tp-sp", {}))
  end)

  it("come in blocks: of each group, a block holds every rank once", function()
    local p = { tp = 2, cp = 2, dp = 4, ep = 1, pp = 1, rank_order = "tp-cp-ep-dp-pp" }
    for rank = 0, 15 do
      local block, whole = ranks.group(p, "data", rank, 4), ranks.group(p, "data", rank)
      assert.equal(4, #block)
      local from = rank // 8 * 4
      assert.same(table.move(whole, from + 1, from + 4, 1, {}), block)
      local place = rank // 2 % 4 + 1 -- the other block's rank of the same place has the same part
      assert.same({ whole[place], whole[place + 4] }, ranks.replicas(p, "data", rank, 4))
    end
  end)
end)
