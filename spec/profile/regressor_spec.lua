local operator = require "ett.operator"
local regressor = require "ett.profile.regressor"
local random = require "random"
local fits = require("needs").fitting(it, pending)
local raised = require "raised"

-- Made-up device: 2e14 FLOP/s, 1.5e12 bytes/s, 5 us to launch; a ripple that no base knows.
local function made_up(n)
  local rows, seconds, uniform = {}, {}, random.shares(12345)
  for i = 1, n do
    local m, k, width = 256 * (1 + math.floor(uniform() * 63)), 128 * (1 + math.floor(uniform() * 63)),
      128 * (1 + math.floor(uniform() * 63))
    rows[i] = { 1, m, width, k }
    local flops = 2.0 * m * k * width
    seconds[i] = (5e-6 + flops / 2e14 + 2.0 * (m * k + k * width + m * width) / 1.5e12)
      * (width % 256 == 0 and 1 or 1.1) * (1 + 0.01 * (uniform() - 0.5))
  end
  return rows, seconds
end

describe("ett.regressor", function()
  local rows, seconds = made_up(600)

  fits("hybrid recovers the trend, the ripple and the range of the samples", function()
    local r, outliers = regressor.fit { family = "gemm", rows = rows, seconds = seconds }
    assert.are.equal(0, #outliers)
    assert.is_true(r:facts().error_mean < 0.02, r:facts().error_mean)
    local fresh, truth = made_up(900)
    local total, covered, inside = 0.0, 0, 0
    local value, low, high, provenance = r:predict_rows { table.unpack(fresh, 601) }
    for i = 1, 300 do
      total = total + math.abs(value[i] / truth[600 + i] - 1)
      if low[i] <= truth[600 + i] and truth[600 + i] <= high[i] then covered = covered + 1 end
      if provenance[i] == "interpolated" then inside = inside + 1 end
    end
    assert.is_true(inside >= 285, inside)
    assert.is_true(total / 300 < 0.02, total / 300)
    assert.is_true(covered >= 0.8 * 300, covered)
    local one = r:predict(fresh[601])
    assert.are.equal(value[1], one.value)
    local far = r:predict { 1, 65536, 8192, 8192 }
    assert.are.equal("extrapolated", far.provenance)
    assert.is_true(far.outside > 1.9 and far.high - far.low > one.high - one.low)
    local truth_far = 5e-6 + 2.0 * 65536 * 8192 * 8192 / 2e14 + 2.0 * (2 * 65536 * 8192 + 8192 ^ 2) / 1.5e12
    assert.is_true(math.abs(far.value / truth_far - 1) < 0.06, far.value / truth_far)
  end)

  fits("reports the error of rows that the base did not see, either", function()
    local nine, times = {}, {}
    for i = 1, 9 do nine[i], times[i] = { 1e6 * i }, (20e-6 + 7e-6 * i) * (1 + 0.2 * ((i * 5) % 3 - 1)) end
    for _, kind in ipairs { "alpha_beta", "robust_linear" } do
      local sum = 0.0
      for out = 1, 9 do
        local given, seconds_of = {}, {}
        for i = 1, 9 do
          if i ~= out then given[#given + 1], seconds_of[#seconds_of + 1] = nine[i], times[i] end
        end
        local other = regressor.fit { kind = kind, family = "alpha_beta", rows = given, seconds = seconds_of }
        sum = sum + math.abs(other:predict(nine[out]).value / times[out] - 1) / 9
      end
      local model = regressor.fit { kind = kind, family = "alpha_beta", rows = nine, seconds = times }
      assert.near(sum, model:facts().error_mean, 1e-9)
    end
  end)

  fits("calls a time measured if it is that of the shape's own samples", function()
    local given, times, middle = {}, {}, {}
    for i = 1, 60 do -- each shape has its own factor, which no feature tells
      local d = { 1, 256 * (1 + i * 7 % 13), 256 * (1 + i * 11 % 17), 256 * (1 + i * 5 % 7) }
      local own = 5e-6 + 2.0 * d[2] * d[3] * d[4] / 2e14 * (1 + 0.8 * ((i * 37) % 19) / 19)
      for k = 1, 3 do given[#given + 1], times[#times + 1] = d, own * (1 + 0.01 * (k - 2)) end
      middle[i] = own
    end
    local repeated = regressor.fit { family = "gemm", rows = given, seconds = times }
    local single, once = {}, {}
    for i = 1, 60 do single[i], once[i] = given[3 * i], times[3 * i] end
    local unique, furthest = regressor.fit { family = "gemm", rows = single, seconds = once }, 0.0
    for i = 1, 60 do
      local answer = repeated:predict(single[i])
      assert.equal("measured", answer.provenance)
      assert.near(middle[i], answer.value, 1e-6 * middle[i])
      answer = unique:predict(single[i])
      assert.equal("interpolated", answer.provenance)
      furthest = math.max(furthest, math.abs(answer.value / once[i] - 1))
    end
    assert.is_true(furthest > 0.03, furthest) -- such an answer is not the sample
  end)

  -- Products of which nothing but noise is left above the base: about 9 % log-normal.
  local function noisy(n, seed)
    local given, times, uniform = {}, {}, random.shares(seed)
    for i = 1, n do
      given[i] = { 1 }
      for j = 2, 4 do given[i][j] = 64 * (1 + math.floor(255 * uniform())) end
      local noise = uniform() + uniform() + uniform() + uniform() - 2
      times[i] = (5e-6 + 2.0 * given[i][2] * given[i][3] * given[i][4] / 2.5e14) * math.exp(0.15 * noise)
    end
    return given, times
  end

  local function new_rows(n, rounds)
    local covered, asked, found, said = 0, 0, 0.0, 0.0
    for seed = 1, 8 do
      local given, times = noisy(n, 1000 * seed)
      local model = regressor.fit { family = "gemm", rows = given, seconds = times, rounds = rounds }
      said = said + model:facts().error_mean / 8
      local fresh, truth = noisy(200, 1000 * seed + 7)
      for i, t in ipairs(truth) do
        local answer = model:predict(fresh[i])
        asked, found = asked + 1, found + math.abs(answer.value / t - 1) / 1600
        if answer.low <= t and t <= answer.high then covered = covered + 1 end
      end
    end
    return covered / asked, found, said
  end

  fits("covers 90 % of new rows where only noise is left", function()
    local covered = new_rows(150, 30)
    assert.is_true(covered > 0.87 and covered < 0.95, covered)
  end)

  -- `n` rows of which `share` take `slow` times, and 300 new ones.
  local function rows_of_modes(slow, share, n, seed)
    local uniform, times, fresh, truth = random.shares(seed), {}, {}, {}
    local given = noisy(n + 300, 1000 * seed)
    for i, d in ipairs(given) do
      times[i] = (5e-6 + 2.0 * d[2] * d[3] * d[4] / 2.5e14) * math.exp(0.02 * (uniform() - 0.5))
      if uniform() < share then times[i] = slow * times[i] end
    end
    for i = n + 1, n + 300 do
      fresh[#fresh + 1], truth[#truth + 1], given[i], times[i] = given[i], times[i], nil, nil
    end
    return given, times, fresh, truth
  end

  -- The share of new rows that is covered, and the mean of log(high / low).
  local function two_modes(slow, share)
    local covered, asked, width = 0, 0, 0.0
    for seed = 1, 3 do
      local given, times, fresh, truth = rows_of_modes(slow, share, 300, seed)
      local model = regressor.fit { family = "gemm", rows = given, seconds = times, rounds = 30 }
      for i, t in ipairs(truth) do
        local answer = model:predict(fresh[i])
        asked, width = asked + 1, width + math.log(answer.high / answer.low)
        if answer.low <= t and t <= answer.high then covered = covered + 1 end
      end
    end
    return covered / asked, width / asked
  end

  fits("covers new rows of two modes by chance, with an interval as wide as the modes", function()
    local covered, width = two_modes(1.3, 0.3)
    assert.is_true(covered > 0.85 and covered < 0.95, covered)
    assert.is_true(width < 1.2 * 2 * math.log(1.3), width)
  end)

  fits("covers a slow mode whose rows it dropped as outliers", function()
    local covered, width = two_modes(4, 0.3)
    assert.is_true(covered > 0.9 and covered < 0.98, covered)
    assert.is_true(width < 1.05 * math.log(4), width) -- to one side
    covered, width = two_modes(4, 0.06) -- a tenth of new rows is outside of either
    assert.is_true(covered > 0.85 and covered < 0.95, covered)
    assert.is_true(width < 0.2, width)
  end)

  fits("reaches into a dropped mode by its distance, to its side only, also outside the samples", function()
    for slow, share in pairs { [4] = 0.3, [1 / 4] = 0.15 } do
      for seed = 1, 2 do
        local given, times, fresh = rows_of_modes(slow, share, 40, seed)
        local model = regressor.fit { family = "gemm", rows = given, seconds = times, rounds = 30 }
        assert.is_true(model:facts().dropped > 4)
        local text = assert(regressor.from_text(model:text()))
        for _, each in ipairs { model, assert(regressor.open(model:bytes())), text } do
          for _, d in ipairs { fresh[1], { 1, 65536, 65536, 65536 } } do
            local answer = each:predict(d)
            local toward, away = answer.high / answer.value, answer.value / answer.low
            if slow < 1 then toward, away = away, toward end
            assert.is_true(toward > 3.9 and toward < 8, toward)
            assert.is_true(away < 2, away)
          end
        end
      end
    end
  end)

  fits("reports the error of new rows for a table of few rows, and covers them", function()
    local covered, found, said = new_rows(12)
    assert.is_true(said > 0.8 * found and said < 1.5 * found, ("said %.4f, found %.4f"):format(said, found))
    assert.is_true(covered > 0.9, covered)
  end)

  fits("gives the same bytes twice, with any number of threads", function()
    local given = { family = "gemm", rows = rows, seconds = seconds, rounds = 20 }
    local a = regressor.fit(given):bytes()
    given.threads = 1
    assert.are.equal(a, regressor.fit(given):bytes())
  end)

  fits("gives the same bytes in fits at the same time; one of them may fail", function()
    local function given(from, backward)
      return { family = "gemm", backward = backward, rows = { table.unpack(rows, from, 300) },
        seconds = { table.unpack(seconds, from, 300) } }
    end
    local found = regressor.fit_all { given(1, false), given(300), given(1, true) }
    assert.equal(regressor.fit(given(1, false)):bytes(), found[1][1]:bytes())
    assert.equal(regressor.fit(given(1, true)):bytes(), found[3][1]:bytes())
    assert.is_nil(found[2][1])
    assert.matches("a fit takes at least 2 rows, got 1", tostring(found[2][2]))
  end)

  fits("takes the seed of its caller, and refuses parameters that are not sums of leaves", function()
    local given = { kind = "random_forest", family = "gemm", rows = rows, seconds = seconds }
    local usual = regressor.fit(given):bytes()
    given.parameters = { seed = 7 }
    assert.are_not.equal(usual, regressor.fit(given):bytes())
    for name, value in pairs { booster = "dart", objective = "reg:gamma", base_score = 5 } do
      given.parameters = { [name] = value }
      assert.matches(("^regressor.fit: parameters: predictions do not support %s = '?%s'?"):format(name, value),
        raised(regressor.fit, given))
    end
    given.parameters = { booster = "gbtree", objective = "reg:squarederror" }
    assert.are.equal(usual, regressor.fit(given):bytes())
  end)

  fits("begins boosted trees at the mean of the logarithm, which a model file keeps", function()
    local few, alike = {}, {}
    for i = 1, 64 do few[i], alike[i] = rows[i], 2e-5 * 1.1 ^ (i % 3 - 1) end
    local r = regressor.fit { kind = "boosted_trees", family = "gemm", rows = few, seconds = alike, rounds = 1 }
    for _, each in ipairs { r, assert(regressor.open(r:bytes())), assert(regressor.from_text(r:text())) } do
      assert.near(2e-5, each:predict(rows[1]).value, 0.2 * 2e-5) -- from 1 s it would be 0.3 s
    end
    assert.is_true(r:facts().error_mean < 0.15)
  end)

  fits("refuses names of parameters that XGBoost ignores", function()
    local given = { kind = "boosted_trees", family = "gemm", rows = rows, seconds = seconds, rounds = 2 }
    local function why(parameters, kind)
      given.parameters, given.kind = parameters, kind or "boosted_trees"
      local ok, err = pcall(regressor.fit, given)
      return not ok and tostring(err) or nil
    end
    assert.equal("regressor.fit: parameters: XGBoost does not read 'max_dept'; did you mean 'max_depth'?",
      why { max_dept = 3, eta = 0.3 })
    assert.equal("regressor.fit: parameters: XGBoost does not read 'learning_rat'; did you mean 'learning_rate'?",
      why { learning_rat = 0.3 })
    assert.matches("does not read 'n_estimators'", why { n_estimators = 30 }, 1, true)
    for _, method in ipairs { "exact", "hist", "approx" } do
      assert.is_nil(why { tree_method = method, max_depth = 3, learning_rate = 0.3, reg_lambda = 1, gamma = 0.1,
        min_child_weight = 1, subsample = 0.5, colsample_bytree = 0.9, num_parallel_tree = 2, max_bin = 32, seed = 3,
        objective = "reg:pseudohubererror", huber_slope = 2, eval_metric = "mae", verbosity = 0 })
    end
    assert.is_nil(why({ max_depth = 3, min_split_loss = 0.1 }, "hybrid"))
    assert.is_nil(why({ max_leaves = 8, grow_policy = "lossguide", max_depth = 0 }, "random_forest"))
    assert.equal("regressor.fit: parameters are XGBoost's; this kind of regressor has no trees",
      why({ max_depth = 3 }, "robust_linear"))
  end)

  fits("times attention under masks that were not sampled", function()
    local function seconds_of(d) -- a causal square has half of all pairs
      return 6e-6 + 4 * d[1] * d[2] * d[4] * d[5] * d[6] * (d[7] == 0 and 1 or d[7] / 2) / 1.8e14
    end
    for sampled = 0, 1 do
      local squares, times = {}, {}
      for i = 1, 120 do
        local heads, seq = 8 * (1 + i % 4), 512 * (1 + i % 8)
        squares[i] = { 1 + i % 3, heads, heads, seq, seq, i % 2 == 0 and 64 or 128, sampled }
        times[i] = seconds_of(squares[i])
      end
      local model = regressor.fit { family = "attention", rows = squares, seconds = times }
      for _, mask in ipairs { 1 - sampled, 1.75 } do
        local d = { 2, 16, 16, mask > 1 and 512 or 2048, 2048, 64, mask }
        local answer = model:predict(d)
        assert.near(seconds_of(d), answer.value, 0.03 * seconds_of(d))
        assert.equal("extrapolated", answer.provenance)
        assert.near(mask > 1 and math.log(sampled == 1 and 1.75 or 2.75, 2) or 1, answer.outside, 1e-9)
        assert.is_true(answer.high < 1.5 * answer.low, ("%g to %g"):format(answer.low, answer.high))
      end
      for _, mask in ipairs { -1, 3 } do
        local why = raised(model.predict, model, { 2, 16, 16, 2048, 2048, 64, mask })
        assert.matches(("the mask of family 'attention' must be 0 to 2, got %d"):format(mask), why, 1, true)
      end
    end
  end)

  fits("takes a flag that was not sampled as one doubling", function()
    for flag = 0, 1 do
      local given, times = {}, {}
      for i = 1, 60 do
        given[i] = { 1e9 * (1 + i % 10), 1e6 * (1 + i % 7), flag }
        times[i] = 5e-6 + given[i][1] / 1e13
      end
      local model = regressor.fit { family = "wave", rows = given, seconds = times }
      assert.equal(1, model:predict({ 5e9, 3e6, 1 - flag }).outside)
    end
  end)

  fits("loads what it saved, and refuses damaged files", function()
    local r = regressor.fit { family = "gemm", rows = rows, seconds = seconds, rounds = 20 }
    local path = os.tmpname()
    assert.is_true(r:save(path))
    local again = assert(regressor.load(path))
    assert.are.same(r:predict(rows[1]), again:predict(rows[1]))
    local bytes = r:bytes()
    assert(require("ett.io").write(path, bytes .. "a tail\n"))
    assert.equal(bytes, assert(regressor.load(path, "a tail\n")):bytes())
    for _, tail in ipairs { "", "a Tail\n", "more" .. bytes .. "a tail\n" } do
      local other, why = regressor.load(path, tail)
      assert.is_true(other == nil and why.kind == "format", tail:sub(1, 9))
      assert.matches(path, why.message, 1, true)
    end
    assert.is_nil(regressor.open(bytes:sub(1, -9)))
    local damaged, err = regressor.open(bytes:sub(1, 3000) .. "\x7f" .. bytes:sub(3002))
    assert.is_true(damaged == nil and err.kind == "format")
    os.remove(path)
    local none, why = regressor.load(path)
    assert.is_nil(none)
    assert.are.equal("missing", why.kind)
  end)

  fits("keeps its answers in a coefficient text of a few kilobytes", function()
    local r = regressor.fit { family = "gemm", rows = rows, seconds = seconds, compact = true }
    local text = r:text()
    assert.is_true(#text < 40000, #text)
    local again = assert(regressor.from_text(text))
    local opened = assert(regressor.open(again:bytes()))
    assert.equal(again:bytes(), opened:bytes())
    for i = 1, 100 do
      assert.same(again:predict(rows[i]), opened:predict(rows[i]))
      assert.is_true(math.abs(again:predict(rows[i]).value / r:predict(rows[i]).value - 1) < 1e-3)
    end
  end)

  it("reads the fuzzer's seeds: they have the present formats", function()
    for name, read in pairs { text = "from_text", text_modes = "from_text", block = "open" } do
      local path = require("ett.host").root .. "/spec/fuzz/corpus/regress_model/" .. name
      local seed = assert(io.open(path, "rb")):read "a"
      assert.is_true(assert(regressor[read](seed:sub(2))):facts().trees > 0, name)
    end
  end)

  fits("keeps rows that equal a threshold on their side of it in a coefficient text", function()
    local grid, ratios = {}, {}
    for i = 1, 400 do
      local size, sign = 2 ^ (i % 8), i % 2 * 2 - 1
      grid[i], ratios[i] = { math.log(size * 100), sign * math.log(size + 0.1) }, 1 + i % 8 + sign / 4
    end
    local r = regressor.fit { kind = "boosted_trees", family = "raw", rows = grid, seconds = ratios, rounds = 40,
      gate = false, parameters = { tree_method = "hist", max_bin = 256 } }
    local again = assert(regressor.from_text(r:text()))
    for i, row in ipairs(grid) do assert.near(1, again:predict(row).value / ratios[i], 0.05) end -- neighbours: 0.2
  end)

  fits("drops rows of another mode and says so", function()
    local bad = table.move(seconds, 1, #seconds, 1, {})
    for i = 10, 600, 30 do bad[i] = bad[i] * 1000 end
    local r, outliers = regressor.fit { family = "gemm", rows = rows, seconds = bad, rounds = 50 }
    assert.are.equal(20, #outliers)
    assert.are.equal(10, outliers[1].row)
    assert.are.equal(20, r:facts().dropped)
    assert.is_true(r:facts().error_mean < 0.03)
  end)

  fits("drops rows that no device could run so fast", function()
    local least = {}
    for i, row in ipairs(rows) do least[i] = 2.0 * row[2] * row[3] * row[4] / 2.5e14 end
    local fast = table.move(seconds, 1, #seconds, 1, {})
    fast[7] = least[7] / 2
    local _, outliers = regressor.fit { family = "gemm", rows = rows, seconds = fast,
      least_seconds = least, rounds = 5 }
    assert.are.equal(1, #outliers)
    assert.are.equal(7, outliers[1].row)
    assert.truthy(outliers[1].reason:find("faster"))
  end)

  fits("fits every kind", function()
    local few, their_seconds = made_up(200)
    for _, kind in ipairs { "boosted_trees", "random_forest", "robust_linear" } do
      local r = regressor.fit { kind = kind, family = kind == "robust_linear" and "gemm" or nil, rows = few,
        seconds = their_seconds }
      assert.is_true(r:facts().error_mean < 0.6, kind .. " " .. r:facts().error_mean)
      assert.is_true(r:predict(rows[1]).value > 0)
    end
    local sizes, times = {}, {}
    for i = 1, 60 do
      sizes[i] = { i * 65536 }
      times[i] = 2e-5 + i * 65536 / 1e11
    end
    local r = regressor.fit { kind = "alpha_beta", rows = sizes, seconds = times }
    local found = r:facts().coefficients
    assert.is_true(math.abs(found[1] / 2e-5 - 1) < 1e-3 and math.abs(found[2] * 1e11 - 1) < 1e-3)
  end)

  fits("refuses what cannot be fitted, in words", function()
    for _, case in ipairs {
      { { rows = rows, seconds = { 1 } }, "times need" },
      { { family = "gem", rows = rows, seconds = seconds }, "gem" },
      { { kind = "hybird", rows = rows, seconds = seconds }, "hybrid" },
      { { family = "gemm", rows = { { 1, 2, 3, 0 }, { 1, 2, 3, 4 } }, seconds = { 1, 1 } }, "dimension 4" },
      { { family = "gemm", rows = { { 1, 2, 3, 4 }, { 1, 2, 3, 4 } }, seconds = { 1, -1 } }, "row 2" },
      { { family = "gemm", rows = rows, seconds = seconds, parameters = { max_depth = "deep" } }, "xgboost" },
    } do
      assert.matches(case[2], raised(regressor.fit, case[1]), 1, true)
    end
  end)
end)

describe("without XGBoost", function()
  local part, path = package.loaded["ett.regress_fit"], package.cpath
  before_each(function() package.loaded["ett.regress_fit"], package.cpath = nil, "" end)
  after_each(function() package.loaded["ett.regress_fit"], package.cpath = part, path end)

  it("a fit names the package to install", function()
    local rows = { { 1, 64, 64, 64 }, { 1, 128, 64, 64 } }
    local ok, err = pcall(regressor.fit, { family = "gemm", rows = rows, seconds = { 1e-3, 2e-3 } })
    assert.is_false(ok)
    assert.equal("missing", err.kind)
    assert.equal("the module that fits regressors is not built: install libxgboost-dev and build again", err.message)
  end)

  it("coefficient files answer", function()
    local p = require("ett.profile.of_cluster").open(require("ett.profile.cluster").get "perlmutter")
    local answer = p:operator("linear_up", { tokens = 4096, in_features = 4096, out_features = 16384 }, "fp16",
      "forward")
    assert.equal("calibrated", answer.provenance)
    assert.is_true(answer.seconds > 2.0 * 4096 * 4096 * 16384 / 312e12)
  end)
end)

describe("ett.profile.samples", function()
  local samples = require "ett.profile.samples"

  it("reads names of files", function()
    local one = samples.parse_name "a/NVIDIAA100-SXM4-80GB_allgather_large_fp16_1_2.csv"
    assert.are.same({ gpu = "NVIDIAA100-SXM4-80GB", name = "allgather_large", dtype = "fp16", nodes = 1, gpus = 2 },
      one)
    assert.is_nil(samples.parse_name "NVIDIAA100-SXM4-80GB.csv")
    assert.is_nil(samples.parse_name "notes.txt")
  end)

  it("pools operators that run the same kernel", function()
    local c = { tp = 1, cp = 1, ep = 1, micro_batch = 2, seq = 1024, hidden = 2048, heads = 16, kv_heads = 16,
      head_dim = 128, ffn = 8192, vocab = 50257, layers = 2, causal = true, dtype = "fp16" }
    for _, name in ipairs { "linear1", "linear2", "linear_final" } do
      local op = operator.get(name)
      local pool, family, dims = samples.dims(op, op.shape(c))
      assert.are.same({ "gemm", "gemm", 4 }, { pool, family, #dims })
    end
  end)

  it("keeps scans of the family bmm apart from products", function()
    local function pool_of(name, c)
      local op = operator.get(name)
      local pool, family = samples.dims(op, op.shape(c))
      assert.equal(pool, samples.pool(op))
      return pool, family
    end
    local c = { tp = 1, cp = 1, micro_batch = 1, seq = 1024, hidden = 2048, heads = 16, kv_heads = 16, head_dim = 128 }
    assert.same({ "ssd_scan", "wave" }, { pool_of("ssd_scan", c) })
    assert.same({ "bmm", "gemm" }, { pool_of("bmm_qk", c) })
  end)

  it("rotates the turned part of each head of a token", function()
    local s = { batch = 2, seq = 16, heads = 8, kv_heads = 2, head_dim = 64, rotary_dim = 32 }
    local pool, family, dims, partial = samples.dims(operator.get "rope", s)
    assert.same({ "rope", "rowwise", true }, { pool, family, partial })
    assert.same({ 2 * 16 * (8 + 2), 32, 2 * 16 }, dims)
  end)

  it("counts the pairs that a causal mask leaves to a rank", function()
    local op = operator.get "flash_attention"
    local function mask(seq_q, causal, shards)
      local _, family, dims = samples.dims(op, { batch = 1, heads = 8, kv_heads = 8, seq_q = seq_q, seq_k = 4096,
        head_dim = 64, causal = causal, shards = shards })
      assert.equal("attention", family)
      return dims[7]
    end
    assert.same({ 1, 1.75, 1, 0, 0 }, { mask(4096, 1), mask(1024, 1), mask(1024, 1, 4), mask(1024, 0), mask(4096, 0) })
  end)

  it("distinguishes routers by number of experts, and token moves by number of choices", function()
    for name, field in pairs { moe_router = "experts", moe_permute = "top_k", moe_unpermute = "top_k" } do
      local op, s = operator.get(name), { tokens = 4096, hidden = 2048, experts = name == "moe_router" and 8 or nil,
        top_k = 2 }
      local _, family, few = samples.dims(op, s)
      s[field] = 4 * s[field]
      assert.equal("wave", family)
      assert.are_not.same(few, (select(3, samples.dims(op, s))), name)
    end
  end)

  it("gives positive FLOPs and bytes to kernels that compute or move nothing", function()
    local op = operator.check({ name = "wait", summary = "waits", schema = { tokens = "count", turns = "count" },
      shape = function(s) return s end, flops = function() return 0.0 end, bytes = function() return 0.0 end,
      kernel_shape = function(s) return { rows = s.tokens, cols = 1, turns = s.turns } end }, "wait.lua")
    local _, family, dims = samples.dims(op, { tokens = 8, turns = 3 })
    assert.same({ "wave", { 1.0, 1.0, 1, 8, 3 } }, { family, dims })
  end)

  it("reports the rows and passes of a table that were measured under noise", function()
    local folder = require("command").folder()
    local path = folder .. "/CPU_gelu_fp32.csv"
    assert(require("ett.io").write(path, table.concat({ "# ett: 1", "# backend: cpu",
      "tokens,width,F_dur(us),B_dur(us)", "16,64,1.5,2.5", "#~ disturbed: 32,64: backward: memory up to 30 % slow",
      "#~ note: 32,64: a mark between", "32,64,3,7", "48,64,4.5,7.5",
      "#~ disturbed: 64,64: forward: clock 9 % slow, backward: clock 9 % slow", "64,64,6.5,11" }, "\n") .. "\n"))
    local read = assert(samples.read(assert(samples.index(folder))[1]))
    assert.equal(4, read.count)
    assert.same({ [4] = true }, read.passes[1].disturbed)
    assert.same({ [2] = true, [4] = true }, read.passes[2].disturbed)
    local data = require("ett.profile").from_samples({ folder }, { cache = false }):data(
      { samples.index(folder)[1] }, "backward")
    assert.same({ [2] = true, [4] = true }, data.disturbed)
    require("command").remove(folder)
  end)
end)
