-- Pages as text: escaped, self-contained; the bytes of lanes against a reader written here.
local inflate = require "inflate"
local json = require "ett.json"
local lanes = require "ett.report.page.lanes"
local merged = require "ett.base.merged"
local pack = require "ett.pack"
local pages = require "ett.report.page"

local function numbers(bytes)
  local list, value, shift = {}, 0, 0
  for i = 1, #bytes do
    local b = bytes:byte(i)
    value = value | (b & 127) << shift
    shift = shift + 7
    if b < 128 then
      list[#list + 1] = value
      value, shift = 0, 0
    end
  end
  return list
end

describe("ett.pack", function()
  it("writes deflate streams that Python inflates, of every length modulo 3 and incompressible too", function()
    math.randomseed(7)
    local texts, wanted = {}, {}
    for k, n in ipairs { 0, 1, 2, 3, 4, 1000, 20001 } do
      local parts = {}
      for i = 1, n do parts[i] = string.char(math.random(0, 255)) end
      wanted[k] = table.concat(parts)
      texts[k] = pack.deflate(wanted[k])
    end
    assert.same(wanted, inflate(texts))
  end)

  it("packs random nested events: every one is read back, rows do not overlap, bins add up", function()
    math.randomseed(11)
    for _ = 1, 3 do
      local start, duration, label, wait, n = {}, {}, {}, {}, math.random(1, 300)
      for i = 1, n do
        start[i], duration[i], label[i] = math.random(0, 5000), math.random(0, 400), math.random(1, 3)
        wait[i] = math.random(0, duration[i])
      end
      local lane = pack.lane { start = start, duration = duration, label = label, kind = { 0, 1, 2 }, wait = wait,
        from = 0, to = 5400, bins = 54, chunk_events = 64 }
      local seen, ends, covered, texts = {}, {}, {}, { lane.overview }
      for _, chunk in ipairs(lane.chunks) do texts[#texts + 1] = chunk.text end
      texts = inflate(texts)
      for k, chunk in ipairs(lane.chunks) do
        local list = numbers(texts[k + 1])
        local count, at, t = list[1], 1, chunk.from
        assert.equal(chunk.count, count)
        local function column() at = at + count; return at - count end
        local a, b, c = column(), column(), column()
        local d = lane.rows > 1 and column()
        local e = column()
        assert.equal(#list, at)
        for i = 1, count do
          t = t + list[a + i]
          local row = d and list[d + i] or 0
          assert.is_true(row < lane.rows and t >= (ends[row] or 0), "rows do not overlap")
          ends[row] = t + list[b + i]
          covered[row] = (covered[row] or 0) + list[b + i]
          seen[#seen + 1] = ("%d %d %d %d"):format(t, list[b + i], list[c + i] + 1, list[e + i])
          assert.is_true(t >= chunk.from and t + list[b + i] <= chunk.to)
        end
      end
      local wanted = {}
      for i = 1, n do wanted[i] = ("%d %d %d %d"):format(start[i], duration[i], label[i], wait[i]) end
      table.sort(seen)
      table.sort(wanted)
      assert.same(wanted, seen)
      local overview = texts[1]
      assert.equal(lane.rows * 54 * 2, #overview)
      for row = 0, lane.rows - 1 do
        local sum = 0
        for bin = 0, 53 do sum = sum + overview:byte((row * 54 + bin) * 2 + 1) / 255 * 100 end
        assert.is_true(math.abs(sum - (covered[row] or 0)) <= 54 * 0.7, "the overview covers what the events do")
      end
    end
  end)

  it("refuses impossible lanes", function()
    local function lane(change)
      local given = merged({ start = { 1 }, duration = { 1 }, label = { 1 }, kind = { 0 }, from = 0, to = 2, bins = 4,
        chunk_events = 4 }, change)
      return function() pack.lane(given) end
    end
    assert.has_error(lane { duration = {} }, "field 'duration' must hold 1 integers, got 0")
    assert.has_error(lane { start = { 0.5 } }, "field 'start[1]' must be an integer")
    for _, change in ipairs { { duration = { -1 } }, { label = { 2 } }, { label = { 0 } }, { wait = { 2 } },
      { kind = { 99 } }, { bins = 0 }, { start = { math.mininteger } }, { duration = { math.maxinteger } },
      { start = { math.maxinteger } }, { from = math.mininteger, to = math.maxinteger } } do
      assert.is_false((pcall(lane(change))))
    end
  end)
end)

describe("a page", function()
  it("escapes text that would end its script or title, and loads nothing", function()
    local bad = "</script><script>throw 1</script>"
    local page = pages.new { title = bad, scripts = { "lanes" } }
    page.data.rows = { bad }
    local text = page:text()
    assert.is_nil(text:find("<script>throw", 1, true))
    assert.is_nil(text:find("https?://"))
    assert.matches("default-src 'none'", text, 1, true)
    local data = json.decode(text:match('id="data">(.-)</script>'))
    assert.equal(bad, data.rows[1])
    local _, opened = text:gsub("<script", "")
    local _, closed = text:gsub("</script>", "")
    assert.equal(3, opened)
    assert.equal(3, closed)
  end)

  it("holds no control characters of names", function()
    local bad = "a\27]0;\7\r\127\u{9b}b"
    local page = pages.new { title = bad, scripts = {} }
    page.data.rows = { bad }
    local text = page:text()
    assert.is_nil(text:find "[%z\1-\8\11-\31\127]")
    assert.is_nil(text:find "\xC2[\x80-\x9F]")
    assert.equal(bad, json.decode(text:match('id="data">(.-)</script>')).rows[1])
  end)

  it("makes its folder", function()
    require("ett.base.folder").within(function(folder)
      pages.new({ title = "x", scripts = {} }):write(folder .. "/a/b/c.html")
      assert.is_truthy(io.open(folder .. "/a/b/c.html"))
    end)
  end)

  it("stores a label once, and lanes without events not at all", function()
    local page = pages.new { title = "x", scripts = { "lanes" } }
    local t = lanes.new(page, { from = 0, to = 10, tick = 1, kinds = { { "a", "compute" }, { "b", "comm" } } })
    assert.equal(t:label("k", 1, "x: 1", 5), t:label("k", 1, "x: 1", 5))
    assert.not_equal(t:label("k", 1), t:label("k", 2))
    t:group { name = "g" }
    t:lane { name = "empty", start = {}, duration = {}, label = {} }
    t:lane { name = "full", start = { 1 }, duration = { 2 }, label = { 1 }, overview = true }
    local spec = t:finish()
    assert.equal(1, #spec.groups[1].lanes)
    assert.equal(0, #spec.groups[1].lanes[1].chunks)
    assert.equal(1, spec.left_out)
  end)
end)
