--- The time of a lookup depends on the whole vocabulary and on the rank's share of it.
local of_cluster = require "ett.profile.of_cluster"
local cluster = require "ett.profile.cluster"

local sampled = 50304 -- the vocabulary of the bundled clusters' samples

for _, name in ipairs { "perlmutter", "vista" } do
  describe("a lookup on " .. name, function()
    local profile = of_cluster.open(cluster.get(name))
    local function seconds(pass, whole, ranks)
      local shape = { tokens = 8192, hidden = 4096, vocab = whole // ranks, whole_vocab = whole }
      return profile:operator("embedding", shape, "bf16", pass).seconds
    end

    for _, pass in ipairs { "forward", "backward" } do
      it(pass .. " never takes less time in a larger vocabulary", function()
        for _, ranks in ipairs { 1, 4 } do
          local before = 0
          for whole = 8192, 262144, 8192 do
            local now = seconds(pass, whole, ranks)
            assert.is_true(now >= before * (1 - 1e-12), ("%d rows, %d ranks"):format(whole, ranks))
            before = now
          end
        end
      end)

      it(pass .. " does not jump where the sampled vocabulary ends", function()
        local before, after = seconds(pass, sampled, 1), seconds(pass, sampled + 8, 1)
        assert.is_true(math.abs(after / before - 1) < 1e-3)
      end)

      it(pass .. " takes less time with a smaller share of the same vocabulary", function()
        assert.is_true(seconds(pass, 128256, 8) < seconds(pass, 128256, 1))
      end)
    end

    it("backward clears the whole table: each further row costs at least its bytes", function()
      local bytes = 2 * 4096 * (256000 - 128256)
      assert.is_true(seconds("backward", 256000, 1) - seconds("backward", 128256, 1) > bytes / 4e12)
    end)
  end)
end
