local command = require "command"
local campaign = require "ett.sampling.campaign"
local find = require "ett.base.find"
local lfs = require "lfs"
local merged = require "ett.base.merged"
local sample = require "ett.sample"
local space = require "ett.sampling.space"
local sampler = require "ett.sampling.sampler"
local store = require "ett.sampling.store"

local fixture = require("ett.host").root .. "/spec/samplers/fixture"
local raised = require "raised"
local reference = os.getenv("ETT_REFERENCE") or "../shared/reference"

--- What the reference's rule means, written plainly: an odometer over inclusive ranges.
local function brute(starts, steps, ends, operators)
  local axes, total = {}, 1
  for i = 1, #starts do
    local values, v = {}, starts[i]
    while v <= ends[i] do
      values[#values + 1] = v
      if v == ends[i] then break end
      if (operators[i] or "add") == "mul" then v = v * steps[i] else v = v + steps[i] end
    end
    axes[i], total = values, total * #values
  end
  return axes, total
end

--- The grid of some ranges.
local function grid(...)
  local columns, axes = {}, {}
  for i, axis in ipairs { ... } do columns[i], axes["d" .. i] = "d" .. i, axis end
  return space.grid(columns, axes)
end

describe("the shapes of a campaign", function()
  it("count and order as an odometer, last dimension fastest, ends inclusive", function()
    local shapes = grid({ start = 1, stop = 16, step = 2, op = "mul" }, { start = 4, stop = 12, step = 1 },
      { start = 2, stop = 9, step = 3 })
    local axes, total = brute({ 1, 4, 2 }, { 2, 1, 3 }, { 16, 12, 9 }, { "mul", "add", "add" })
    assert.equal(total, shapes.total)
    local index = 0
    for _, a in ipairs(axes[1]) do
      for _, b in ipairs(axes[2]) do
        for _, c in ipairs(axes[3]) do
          index = index + 1
          assert.same({ a, b, c }, shapes.shape(index))
        end
      end
    end
  end)

  it("ranges whose end is not a power stop below it", function()
    assert.equal(2, grid({ start = 2, stop = 8, step = 4, op = "mul" }).total)
    assert.equal(8, grid({ start = 1, stop = 128, step = 2, op = "mul" }).total)
    assert.equal(7, grid({ start = 1, stop = 127, step = 2, op = "mul" }).total)
    assert.equal(5, grid({ start = 3, stop = 243, step = 3, op = "mul" }).total)
  end)

  it("ranges that never end or wrap are refused", function()
    assert.error_matches(function() grid({ start = 1, stop = 9, step = 0 }) end, "step of an 'add'")
    assert.error_matches(function() grid({ start = 1, stop = 9, step = 1, op = "mul" }) end, "'mul' range")
    assert.error_matches(function() grid({ start = 9, stop = 1 }) end, "above its end")
    local wide = { start = 1, stop = math.maxinteger - 1 }
    assert.error_matches(function() grid(wide, wide) end, "more than 2%^63")
    assert.equal(63, grid({ start = 1, stop = math.maxinteger, step = 2, op = "mul" }).total)
  end)

  it("Halton points have at most 32 dimensions", function()
    local columns, shapes = {}, {}
    for i = 1, 33 do columns[i], shapes["d" .. i] = "d" .. i, 4 end
    assert.error_matches(function() space.of(columns, { design = "halton", count = 1, shapes = shapes }, 1) end,
      "at most 32 dimensions")
  end)

  it("Halton points are the same in every version, and cover each half of each dimension evenly", function()
    assert.same({ 0.51253108158215477, 0.38822704484844167 }, { space.halton(1, 1, 7), space.halton(5, 3, 9) })
    for dimension = 1, 8 do
      local low = 0
      for i = 1, 512 do if space.halton(i, dimension, 9) < 0.5 then low = low + 1 end end
      assert.is_true(math.abs(low - 256) <= 8, ("dimension %d: %d"):format(dimension, low))
    end
  end)
end)

describe("the reference's campaigns", function()
  local folder = reference .. "/estimate-train-time/configs"
  if not lfs.attributes(folder, "mode") then
    it("are skipped", function() pending("no reference data at " .. folder) end)
    return
  end
  local yaml = require "ett.yaml"
  local count = 0
  local function entries(path) return require("ett.base.folder").names(path, "^[^.]") end
  for _, kind in ipairs(entries(folder)) do
    for _, set in ipairs(entries(folder .. "/" .. kind)) do
      local at = ("%s/%s/%s"):format(folder, kind, set)
      for _, file in ipairs(entries(at)) do
        if file:match("%.yml$") then
          count = count + 1
          it(("%s/%s enumerates as its ranges say"):format(set, file), function()
            local given = campaign.load(at .. "/" .. file)
            local raw = assert(yaml.read(at .. "/" .. file))
            local axes, total = brute(raw.starts, raw.steps, raw.ends, raw.operators)
            local target = given.targets[1]
            assert.equal(total, target.total)
            local first, last, second = {}, {}, {}
            for i, axis in ipairs(axes) do first[i], last[i], second[i] = axis[1], axis[#axis], axis[1] end
            assert.same(first, target.values(1))
            assert.same(last, target.values(total))
            for i = #axes, 1, -1 do
              if #axes[i] > 1 then
                second[i] = axes[i][2]
                break
              end
            end
            assert.same(second, target.values(2))
          end)
        end
      end
    end
  end
  it("are all there", function() assert.is_true(count >= 60, tostring(count)) end)
  it("moe.yml has seven dimensions although it names five operators", function()
    local given = campaign.load(folder .. "/kernel_sampling/collect/moe.yml")
    assert.equal(8 * 2 * 9 * 13 * 80 * 1 * 8, given.targets[1].total)
    assert.equal(7, #given.targets[1].columns)
    assert.equal(3, #given.notes) -- two dimensions without an operator, five of seven values in shapes
  end)
end)

describe("a reference file's lengths", function()
  local function given(operators, columns)
    return campaign.of_document({ kernel_name = "gelu", first_n_column = 2, columns_name = columns,
      starts = { 1, 8 }, steps = { 1, 2 }, ends = { 2, 16 }, operators = operators, targets = {} }, "file.yml")
  end
  it("may name an operator and a column for each dimension, and no more operators", function()
    assert.equal(4, given({ "add", "mul" }, { "mp", "dim", "F_dur(us)" }).targets[1].total)
    assert.matches("2 dimensions need at most as many operators and at least as many columns, got 3 and 3",
      raised(given, { "add", "mul", "add" }, { "mp", "dim", "F_dur(us)" }), 1, true)
    assert.is_false((pcall(given, { "add", "mul" }, { "mp" })))
  end)
end)

describe("a reference file", function()
  local function refusal(changes)
    local fields = merged({ kernel_name = "RoPE", first_n_column = 5,
      columns_name = { "mp", "b", "h", "l", "dim", "F_dur(us)" }, starts = { 1, 4, 16, 1024, 2048 },
      steps = { 2, 2, 8, 512, 512 }, ends = { 1, 8, 24, 1024, 2048 },
      operators = { "mul", "mul", "add", "add", "add" } }, changes)
    local ok, why = pcall(function() return campaign.of_document(fields, "file.yml").targets[1].operator end)
    return ok and "" or tostring(why)
  end
  it("is refused with its name, the field and the value", function()
    assert.equal("", refusal {})
    local null = require("ett.json").null
    for said, changes in pairs {
      ["dimension 'mp': field 'start' must be an integer, got 'a'"] = { starts = { "a", 4, 16, 1024, 2048 } },
      ["dimension 'h': range starts at 16 above its end 8"] = { ends = { 1, 8, 8, 1024, 2048 } },
      ["dimension 'mp': field 'op' must be one of add, mul, got 'pow'"] = { operators = { "pow" } },
      ["field 'starts' is empty"] = { starts = {}, steps = {}, ends = {}, operators = {} },
      ["field 'columns_name' names 'mp' twice"] = { columns_name = { "mp", "mp", "h", "l", "dim" } },
      ["field 'columns_name': value 2 must be a name without commas, got null"] = {
        columns_name = { "mp", null, "h", "l", "dim" } },
      ["field 'columns_name': value 1 must be a name without commas, got 'm,p'"] = {
        columns_name = { "m,p", "b", "h", "l", "dim" } },
      ["field 'columns_name': operator 'rope' has no column 'batch'; it has mp, b, h, l, dim"] = {
        columns_name = { "mp", "batch", "h", "l", "dim" } },
      ["field 'shapes': value 2 must be a positive integer, got null"] = { shapes = { 1, null, 16, 1024, 2048 } },
      ["field 'shapes': value 1 must be a positive integer, got -1"] = { shapes = { -1, 4, 16, 1024, 2048 } },
      ["field 'active' must be at most 4000, got 1000000000"] = { active = 1000000000 },
      ["unknown operator 'RoPES'; did you mean 'RoPE'?"] = { kernel_name = "RoPES" },
    } do assert.matches("file.yml: " .. said, refusal(changes), 1, true) end
  end)
end)

describe("a campaign file", function()
  find.set_script_folder(fixture)

  it("scatters distinct shapes that meet its constraint, the same each time", function()
    local function resolve(design)
      return campaign.resolve { name = "x", samples = { { operator = "spec_alias", design = design, count = 40,
        shapes = { rows = { from = 8, to = 512, scale = "log", multiple = 8 }, inner = { 16, 32, 64 },
          outer = { from = 16, to = 256, scale = "log" } },
        where = function(s) return s.outer <= s.rows end } } }.targets[1]
    end
    for _, design in ipairs { "random", "halton" } do
      local a, b, seen = resolve(design), resolve(design), {}
      assert.equal(40, a.total)
      for i = 1, 40 do
        local v = a.values(i)
        assert.same(v, b.values(i))
        assert.is_true(v[3] <= v[1] and v[1] % 8 == 0 and v[1] >= 8 and v[1] <= 512)
        local key = table.concat(v, ",")
        assert.is_nil(seen[key])
        seen[key] = true
      end
    end
  end)

  it("names the error, its place, and the nearest valid name", function()
    local function fails(samples, pattern)
      assert.matches(pattern, raised(campaign.resolve, { name = "x", samples = samples }, "c.lua"))
    end
    local function one(shapes) return { { operator = "spec_linear", shapes = shapes } } end
    fails({ { operator = "spec_linaer", shapes = {} } },
      "c.lua: sample 1: unknown operator 'spec_linaer'; did you mean")
    fails(one { rows = 1, iner = 2, outer = 3 }, "no dimension 'iner'; did you")
    fails(one { rows = 1, inner = 2 }, "needs dimension 'outer'")
    fails(one { rows = 1, inner = { start = 0, stop = 4 }, outer = 3 },
      "dimension 'inner'.*start must be a positive integer, got 0")
    fails({ { collective = "all_reduce", in_place = true, shapes = { shape = 64 } },
      { collective = "all_reduce", shapes = { shape = 64 } } },
      "sample 2: all_reduce out of place and in place %(sample 1%) would write into one table")
    fails({ { collective = "all_redcue", shapes = { shape = 1 } } },
      "unknown collective 'all_redcue'; did you mean 'all_reduce'")
    local scattered = one({ rows = 1, inner = 2, outer = { 3, 4 } })[1]
    scattered.design = "halton"
    fails({ scattered }, "needs count")
    scattered.count = 9
    fails({ scattered }, "count is 9, there are 2 such shapes")
  end)
end)

describe("a table", function()
  local folder
  local backend = find.load("samplers", "cpu")
  local usable = backend.available()
  before_each(function()
    folder = command.folder()
    find.set_script_folder(fixture)
  end)
  after_each(function() os.execute(("chmod -R u+w '%s'; rm -rf '%s'"):format(folder, folder)) end)

  local function small(shapes)
    local given = campaign.resolve { name = "small",
      max_repeats = 3, min_repeats = 1, cold_bytes = 1 << 20, samples = { {
      operator = "spec_linear", shapes = shapes or { rows = { 4, 8 }, inner = { 8, 16, 24 }, outer = 8 } } } }
    given.fingerprint = "5"
    return given
  end

  local function lines_of(path)
    local lines = {}
    for line in io.lines(path) do lines[#lines + 1] = line end
    return lines
  end

  it("contains each shape once after repeated runs", function()
    if not usable then return pending("no CPU back end") end
    local given = small()
    assert.equal(2, sampler.run(given, { out = folder, limit = 2 })[1].measured)
    local report = sampler.run(given, { out = folder })[1]
    assert.equal(4, report.measured)
    assert.equal(0, sampler.run(given, { out = folder })[1].measured)
    local held = store.held(report.path, 3)
    assert.equal(6, held.rows)
    for _, times in pairs(held.done) do assert.equal(1, times) end
    assert.equal("rows,inner,outer,F_dur(us),B_dur(us)", held.columns)
  end)

  it("continues after an incomplete last line", function()
    if not usable then return pending("no CPU back end") end
    local given = small()
    local path = sampler.run(given, { out = folder, limit = 3 })[1].path
    local text = io.open(path):read("a")
    io.open(path, "w"):write(text:sub(1, -4)):close()
    assert.equal(4, sampler.run(given, { out = folder })[1].measured)
    assert.equal(6, store.held(path, 3).rows)
  end)

  it("names the size of the rotating operands, also below a megabyte", function()
    if not usable then return pending("no CPU back end") end
    local session = assert(backend.open { cold_bytes = 1 << 16 })
    local texts = {}
    for _, entry in ipairs(session.header) do texts[entry[1]] = entry[2] end
    session.close()
    assert.matches("operands rotate through 0.0625 MB", texts.timing, 1, true)
  end)

  it("names the statistic of a back end without visits", function()
    for statistic, words in pairs { low = "mean of the fastest tenth of the repeats, plus one",
      median = "median of the repeats" } do
      local given = small()
      given.statistic = statistic
      local journal = store.open({ backend = { name = "mpi" }, header = {} }, given.targets[1],
        { campaign = given, parts = 1, part = 1, precision = "fp32" }, folder .. "/" .. statistic .. ".csv")
      journal:close()
      local text = table.concat(lines_of(folder .. "/" .. statistic .. ".csv"), "\n")
      assert.matches("\n# statistic: " .. words .. "\n", text, 1, true)
    end
  end)

  it("records failed shapes with the reason, and does not repeat them", function()
    if not usable then return pending("no CPU back end") end
    local given = small()
    local report = sampler.run(given, { out = folder, limit_bytes = 4 * 400 + 5 * 320 })[1] -- 320 between them
    assert.is_true(report.failed > 0 and report.measured > 0)
    local text = table.concat(lines_of(report.path), "\n")
    assert.matches("#! failed: 8,24,8: memory: the operands need 0.000 GB, the limit is 0.000 GB", text)
    local again = sampler.run(given, { out = folder })[1]
    assert.equal(0, again.measured + again.failed)
    again = sampler.run(given, { out = folder, retry_failed = true })[1]
    assert.equal(report.failed, again.measured)
    assert.same({}, store.held(report.path, 3).failed)
  end)

  it("is written by one process at a time", function()
    if not usable then return pending("no CPU back end") end
    local given = small()
    local path = sampler.run(given, { out = folder, limit = 1 })[1].path
    local other = assert(sample.journal(path, ""))
    assert.error_matches(function() sampler.run(given, { out = folder }) end, "being written by another process")
    other:close()
    assert.equal(5, sampler.run(given, { out = folder })[1].measured)
  end)

  it("removes what a process left that was killed while it wrote the header", function()
    if not usable then return pending("no CPU back end") end
    local given = small()
    local path = sampler.run(given, { out = folder, limit = 1 })[1].path
    local stem, left = path:gsub("%.csv$", ""), {}
    for _, name in ipairs { stem .. ".csv.123-0.tmp", stem .. ".visits.45-1.tmp", stem .. "_2_1.csv.123-0.tmp",
      stem .. ".csv.x-0.tmp" } do
      assert(io.open(name, "w")):close()
      left[#left + 1] = name
    end
    local other = assert(sample.journal(path, ""))
    pcall(sampler.run, given, { out = folder })
    for _, name in ipairs(left) do assert(lfs.attributes(name), name) end -- another process has the lock
    other:close()
    sampler.run(given, { out = folder })
    for i, name in ipairs(left) do assert.equal(i > 2, lfs.attributes(name) ~= nil, name) end
  end)

  it("parts cover the campaign without overlap", function()
    if not usable then return pending("no CPU back end") end
    local given, seen = small(), {}
    for part = 1, 4 do
      local report = sampler.run(given, { out = folder, parts = 4, part = part })[1]
      assert.matches(("_4_%d.csv$"):format(part), report.path)
      for key in pairs(store.held(report.path, 3).done) do
        assert.is_nil(seen[key])
        seen[key] = true
      end
    end
    local n = 0
    for _ in pairs(seen) do n = n + 1 end
    assert.equal(6, n)
    assert.error_matches(function() sampler.run(given, { out = folder, parts = 4, part = 5 }) end, "1 to 4")
  end)

  it("active sampling stops at its target and counts the rows of an earlier run", function()
    if not usable then return pending("no CPU back end") end
    local active = require "ett.sampling.active"
    -- Times follow a formula exactly, so only the choice of shapes matters.
    local four = { 8, 16, 32, 64 }
    local given = small { rows = { start = 8, stop = 64, step = 8 }, inner = four, outer = four }
    local target = given.targets[1]
    local list = {}
    for i = 1, target.total do list[i] = i end
    local chooser = active.chooser(target, list, { target_error = 0.03, dtype = "fp32" })
    local at, seen = chooser.next(), {}
    while at do
      assert.is_nil(seen[at])
      seen[at] = true
      local s = target.shape(target.values(at))
      chooser.add(s, { forward = { seconds = 1e-6 + 2e-11 * s.rows * s.inner * s.outer } })
      at = chooser.next()
    end
    assert.is_true(chooser.done and chooser.error <= 0.03)
    assert.is_true(chooser.measured < target.total // 2, tostring(chooser.measured))
    assert.equal("target", chooser.done)
    local few = small { rows = { start = 8, stop = 40, step = 8 }, inner = { 8, 16 }, outer = { 8, 16 } }
    local first = active.run(few, { out = folder }, 10)[1]
    assert.is_true(first.measured > 0 and first.measured < 20)
    assert.equal(0, active.run(few, { out = folder }, 10)[1].measured)
    -- Nothing is left to choose: no fault.
    assert.equal(20 - first.measured, sampler.run(few, { out = folder })[1].measured)
    assert.equal(0, active.run(few, { out = folder }, "grid")[1].measured)
  end)

  it("a full disk loses nothing that was written", function()
    -- /dev/full refuses every byte: the journal must report the error and stay valid.
    local journal, err = sample.journal(folder .. "/t.csv", "# h\na,b\n")
    assert(journal, err)
    assert(journal:append("1,2"))
    journal:close()
    local refused, why = sample.journal("/dev/full/t.csv", "# h\n")
    assert.is_nil(refused)
    assert.matches("cannot create", why.message)
    assert.same({ "# h", "a,b", "1,2" }, lines_of(folder .. "/t.csv"))
  end)
end)
