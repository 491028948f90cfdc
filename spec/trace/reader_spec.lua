local io_module = require "ett.io"
local merged = require "ett.base.merged"
local raised = require "raised"
local trace = require "ett.trace"

local folder = require("command").each_folder(_ENV)

local function write(name, text) return require("ett.base.folder").write(folder .. "/" .. name, text) end

local function run(command) assert(os.execute(command)) end

local function event(fields)
  local json = require "ett.json"
  return json.encode(merged({ ph = "X", cat = "kernel", name = "k", pid = 0, tid = 7, ts = 100, dur = 10 }, fields))
end

local function document(events, before, after)
  return "{" .. (before or '"distributedInfo": {"rank": 0}, ') .. '"traceEvents": [' .. table.concat(events, ",")
    .. "]" .. (after or "") .. "}"
end

local function open(path, options) return assert(trace.open(path, options)) end

local function codes(t)
  local list = {}
  for _, w in ipairs(t.warnings) do list[#list + 1] = w.code end
  table.sort(list)
  return list
end

local function warning(t, code)
  for _, w in ipairs(t.warnings) do if w.code == code then return w end end
end

--- Every row of a trace as text, for comparing.
local function rows(t)
  local out = {}
  for _, e in t:events({ valid = false }):iter() do
    out[#out + 1] = table.concat({ e.ts, e.dur, e.name, e.category, tostring(e.device), tostring(e.stream),
      tostring(e.correlation), tostring(e.pid), tostring(e.tid), e.ph }, " ")
  end
  return out
end

describe("ett.trace readers", function()
  it("reads both Kineto dialects alike", function()
    local new = open(write("new.json", document {
      event { cat = "kernel", args = { device = 3, stream = 20, correlation = 5 } },
      event { cat = "gpu_memcpy", ts = 200 }, event { cat = "cpu_op", ts = 300, pid = 41, tid = 42 },
      event { cat = "cuda_runtime", ts = 400, args = { correlation = 5 } } }))
    local old = open(write("old.json", document {
      event { cat = "Kernel", args = { device = 3, stream = 20, correlation = 5 } },
      event { cat = "Memcpy", ts = "200" }, event { cat = "Operator", ts = 300, pid = 41, tid = "42" },
      event { cat = "Runtime", ts = 400.0, args = { correlation = 5 } } }))
    for _, t in ipairs { new, old } do
      assert.same({ "kernel", "memcpy", "cpu_op", "runtime" }, (t:events():columns { "class" }))
      local kernel = t:events { class = "kernel" }
      assert.same({ 3, 20, 5, 0, 7 }, { kernel:get(1, "device"), kernel:get(1, "stream"),
        kernel:get(1, "correlation"), kernel:get(1, "pid"), kernel:get(1, "tid") })
      -- a device row without the args takes device and stream from pid and tid
      assert.same({ 0, 7 }, { t:events({ class = "memcpy" }):get(1, "device"),
        t:events({ class = "memcpy" }):get(1, "stream") })
      assert.equal(42, t:events({ class = "cpu_op" }):get(1, "tid"))
    end
  end)

  it("keeps time to the nanosecond, with the base of each file", function()
    write("rank0.json", document({ event { ts = 1661203462598738, dur = 0.5 },
      '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1661203462598738.123, "dur": 2}' }))
    write("rank1.json", document({ event { ts = 1000.001 } },
      '"distributedInfo": {"rank": 1}, "baseTimeNanoseconds": 1661203462597739000, '))
    local t = open(folder)
    assert.equal(1000000000, t.ticks_per_second)
    assert.equal(1661203462598738000, t.origin_ns)
    assert.same({ 0, 123, 1001 }, (t:events():columns { "ts" }))
    assert.same({ 500, 2000, 10000 }, (t:events():columns { "dur" }))
  end)

  it("places files whose times count from their own start with the first of the absolute times", function()
    write("predicted.json", document { event { ts = 0, dur = 3 }, event { ts = 50 } })
    for base, ts in pairs { [1661203462597738000] = 1234, [0] = 1661203462598972 } do
      write("rank0.json", document({ event { ts = ts + 7 }, event { ts = ts } },
        ('"distributedInfo": {"rank": 0}, "baseTimeNanoseconds": %d, '):format(base)))
      local t <close> = open(folder)
      assert.same({ 0, 50000, 7000, 0 }, (t:events():columns { "ts" }))
      assert.equal(1661203462598972000, t.origin_ns)
      assert.matches("predicted", warning(t, "clock_mismatch").file)
    end
    -- times since the machine's start, of two files that keep their distance
    write("predicted.json", document { event { ts = 86400000050 }, event { ts = 86400000009 } })
    write("second.json", document({ event { ts = 3 } }, '"baseTimeNanoseconds": 86400000002000, '))
    do
      local t <close> = open(folder)
      assert.same({ 45000, 4000, 7000, 0, 0 }, (t:events():columns { "ts" }))
    end
    write("rank0.json", document({ event { ts = 7 } }))
    local t <close> = open(folder)
    assert.is_nil(warning(t, "clock_mismatch"))
  end)

  it("names tracks, joins begin and end, steps over flows and metadata", function()
    local path = write("t.json", document {
      event { ph = "M", name = "process_name", pid = 9, tid = 0, args = { name = "python" } },
      event { ph = "M", name = "thread_name", pid = 9, tid = 4, args = { name = "main" } },
      event { ph = "B", cat = "user_annotation", name = "outer", pid = 9, tid = 4, ts = 10 },
      event { ph = "B", cat = "user_annotation", name = "inner", pid = 9, tid = 4, ts = 20 },
      event { ph = "E", pid = 9, tid = 4, ts = 25 }, event { ph = "E", pid = 9, tid = 4, ts = 70 },
      event { ph = "E", pid = 9, tid = 4, ts = 80 }, event { ph = "s", id = 1 }, event { ph = "f", id = 1 }, "{}" })
    local t = open(path)
    local pairs_ = t:events { class = "annotation" }
    assert.same({ "outer", "inner" }, (pairs_:columns { "name" }))
    assert.same({ 60000, 5000 }, (pairs_:columns { "dur" }))
    assert.equal("python", pairs_:get(1, "process"))
    assert.equal("main", pairs_:get(1, "thread"))
    assert.equal(2, #t:events { class = "annotation", process = "python", thread = { "main", "other" } })
    assert.equal(0, #t:events { process = "main" })
    assert.equal(1, warning(t, "unmatched_begin").count)
    assert.equal(9, t.files[1].seen_count)
    assert.equal(#t:events() + 2, #open(path, { flows = true }):events())
  end)

  it("joins begin and end in order of time, in whatever order the file has them", function()
    local function joined(list)
      local events = {}
      for i, e in ipairs(list) do
        events[i] = event { ph = e[1], ts = e[2], dur = 0, name = e[3] or "end", pid = 1, tid = e[4] or 1 }
      end
      local t <close> = open(write("t.json", document(events)))
      local found = {}
      for _, e in t:events():iter() do found[e.name] = { (t.origin_ns + e.ts) // 1000, e.dur // 1000 } end
      return found, warning(t, "unmatched_begin")
    end
    local nested = { a = { 5, 25 }, b = { 10, 10 } }
    local found, lost = joined { { "B", 10, "b" }, { "B", 5, "a" }, { "E", 20 }, { "E", 30 } }
    assert.same({ nested, nil }, { found, lost })
    found, lost = joined { { "E", 30 }, { "E", 20 }, { "B", 10, "b" }, { "B", 100, "c", 2 }, { "E", 101, "c", 2 },
      { "B", 5, "a" } }
    assert.same({ { a = { 5, 25 }, b = { 10, 10 }, c = { 100, 1 } }, nil }, { found, lost })
    -- Each end follows its begin: slices of a queue may overlap.
    found, lost = joined { { "B", 10, "a" }, { "E", 20 }, { "B", 15, "b" }, { "E", 40 }, { "B", 1, "c" }, { "E", 2 } }
    assert.same({ { a = { 10, 10 }, b = { 15, 25 }, c = { 1, 1 } }, nil }, { found, lost })
    found, lost = joined { { "E", 7 }, { "B", 20, "a" }, { "B", 10, "b" }, { "E", 12 } }
    assert.same({ b = { 10, 2 } }, found)
    assert.equal(2, lost.count)
  end)

  it("gives a joined event the args of its begin and of its end, which replaces equal ones", function()
    local text = document {
      event { ph = "B", ts = 1, pid = 1, tid = 1, args = { size = 8, kept = "begin", stream = 3 } },
      event { ph = "B", ts = 2, pid = 1, tid = 1 },
      event { ph = "E", ts = 3, pid = 1, tid = 1, args = { size = 9 } },
      event { ph = "X", ts = 4, pid = 1, tid = 1, args = { size = 5 } },
      event { ph = "E", ts = 5, pid = 1, tid = 1, args = { size = 16, dtype = "float32", correlation = 77 } },
      event { ph = "E", ts = 6, pid = 1, tid = 1, args = { size = 1 } },
      (event { ph = "E", pid = 1, tid = 1, args = { size = 2, correlation = 1 } }:gsub('"ts": ?%d+,?', "")) }
    local t <close> = open(write("t.json", text), { args = { "size", "kept", "dtype" } })
    assert.same({ 16, 9, 5 }, (t:events():columns { "size" }))
    assert.same({ { "begin", false, false }, { "float32", false, false } }, { t:events():columns { "kept", "dtype" } })
    assert.same({ 77, 3 }, { t:events():get(1, "correlation"), t:events():get(1, "stream") })
    assert.same({ 30, 3 }, { t:events():sum "size" })
  end)

  it("distinguishes a number from a similar one in the event before", function()
    local tids, list = { 7, 7, 71, 7, -7, 7, 712345678, 71234567, 712345678901234, 712345678901234, 712345678901235,
      7123456789012345, 712345678901234 }, {}
    for i, tid in ipairs(tids) do
      list[i] = ('{"ph":"X","ts":%d,"pid":%d%s,"tid":%d%s}'):format(i, tid, (" "):rep(i % 3), tid, (" "):rep(i % 2))
    end
    list[#list + 1] = '{"ph":"X","ts":99,"pid":712345678901234.5,"tid":712345678901234x}'
    local t = open(write("t.json", document(list)))
    local found = t:events()
    assert.same(tids, (found:slice(1, #tids):columns { "tid" }))
    assert.same(tids, (found:slice(1, #tids):columns { "pid" }))
    assert.equal("712345678901234.5", found:get(#list, "pid")) -- no integer: kept as text
    assert.equal("712345678901234x", found:get(#list, "tid"))
  end)

  it("decodes escapes in categories", function()
    local plain, odd = event { ts = 5 }, event { cat = "a \"b\"\t", ts = 7 }
    local t <close> = open(write("t.json", document { (plain:gsub("kernel", "\\u006bernel")), plain, odd, odd }))
    assert.same({ "kernel", "kernel", "a \"b\"\t", "a \"b\"\t" }, (t:events():columns { "category" }))
    assert.equal(2, #t:events { class = "kernel" })
  end)

  it("keeps the requested args unchanged", function()
    local t = open(write("t.json", document { event { args = { ["Collective name"] = "all\"reduce", n = 5, x = 0.1,
      list = { 1, 2 }, yes = true } }, event { ts = 200 },
      '{"ph": "X", "cat": "kernel", "name": "k", "ts": 300, "args": {"n": 10159970886766084423, "x": null}}' }),
      { args = { "Collective name", "n", "x", "list", "yes" } })
    local e = t:events():event(1)
    assert.same({ ["Collective name"] = 'all"reduce', n = 5, x = 0.1, list = "[1,2]", yes = 1 },
      { ["Collective name"] = e.args["Collective name"], n = e.args.n, x = e.args.x, yes = e.args.yes,
        list = e.args.list:gsub("%s", "") })
    assert.equal("integer", math.type(e.args.n))
    assert.equal("10159970886766084423", t:events():get(3, "n"))
    assert.equal(1, warning(t, "integer_overflow").count)
    assert.same({ 5, false, "10159970886766084423" }, t:events():values("n"))
    assert.has_error(function() t:events():values("other") end)
  end)

  it("reads a bare array, a byte order mark, gzip, several gzip members, zstd and long members alike", function()
    local list = {}
    for i = 1, 3000 do list[i] = event { ts = 10 * i, name = "k" .. i % 7, args = { stream = i % 3 } } end
    local plain = write("trace_0.json", document(list))
    local want = rows(open(plain))
    assert.equal(3000, #want)
    assert.same(want, rows(open(write("bare.json", "\n[" .. table.concat(list, ",\n") .. "]"))))
    assert.same(want, rows(open(write("mark.json", "\xEF\xBB\xBF" .. document(list)))))
    run(("gzip -k %q && head -c 50000 %q | gzip > %q && tail -c +50001 %q | gzip >> %q && zstd -q %q"):format(plain,
      plain, folder .. "/two.json.gz", plain, folder .. "/two.json.gz", plain))
    -- flags of a gzip header: text, checksum of the header, extra field, name, comment
    write("parts.json.gz", "\x1f\x8b\8\x1f\0\0\0\0\0\3" .. "\3\0abc" .. "name\0" .. "comment\0" .. "\0\0"
      .. assert(io_module.read(folder .. "/trace_0.json.gz")):match("^..........trace_0.json%z(.*)$"))
    write("long.json", document(list, '"long": "' .. ("x"):rep(3 << 20) .. '", "list": [{}, ["]"]], '))
    for _, name in ipairs { "trace_0.json.gz", "two.json.gz", "trace_0.json.zst", "parts.json.gz", "long.json" } do
      for threads = 1, 3 do
        local t = open(folder .. "/" .. name, { threads = threads })
        assert.same(want, rows(t))
      end
    end
  end)

  it("gives the same rows from any number of stretches and threads", function()
    local list = {}
    for i = 1, 4000 do
      list[i] = event { ts = 10 * i, name = ("op<%d>"):format(i % 50), args = { stream = i % 3,
        note = ('}, {"ph": "X", "name": "no event %d"}, {'):format(i), list = { { ph = "X" }, { ph = "i" } } } }
    end
    local path = write("t.json", document(list, nil, ', "traceName": "x"'))
    local one = open(path, { threads = 1 })
    local want = rows(one)
    assert.equal(4000, #want)
    for _, chunk in ipairs { 3000, 20011, 65536, 300000 } do
      for _, scanner in ipairs { "plain", "sse2" } do
        local t = open(path, { threads = 3, chunk_bytes = chunk, scanner = scanner })
        assert.same(want, rows(t))
        assert.equal('"x"', t.files[1].root.traceName)
        assert.same({}, codes(t))
        assert.equal(one:string(0), t:string(0)) -- strings are numbered by first place
      end
    end
  end)

  it("takes the rank from distributedInfo, else from the name of the file or the folder; else it is unknown", function()
    write("rank-7.json", document({ event {} }, '"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, '))
    write("kineto_trace_5.json", document({ event {} }, ""))
    write("other.json", document({ event {} }, ""))
    write("worker5.json", document({ event {} }, ""))
    for _, name in ipairs { "rank11", "worker_12", "rank-13 old", "gpu14" } do
      assert(require("lfs").mkdir(folder .. "/" .. name))
      write(name .. "/step_" .. name:match("%d+") .. ".json", document({ event {} }, ""))
    end
    local t = open(folder)
    local found = {}
    for _, f in ipairs(t.files) do found[f.path:match("[^/]*$")] = { f.rank or "none", f.rank_source } end
    assert.same({ ["rank-7.json"] = { 3, "distributedInfo" }, ["kineto_trace_5.json"] = { 5, "file name" },
      ["worker5.json"] = { 5, "file name" }, ["other.json"] = { "none", "unknown" },
      ["step_11.json"] = { 11, "folder name" }, ["step_12.json"] = { 12, "folder name" },
      ["step_13.json"] = { "none", "unknown" }, ["step_14.json"] = { "none", "unknown" } }, found)
    assert.same({ "duplicate_rank", "unknown_rank", "unknown_rank", "unknown_rank" }, codes(t))
    assert.equal(8, t.files[5].world_size)
    assert.equal(8, #t:events())
  end)

  describe("with damage", function()
    it("reads the complete part of a truncated file", function()
      local whole = document { event { ts = 1 }, event { ts = 2 }, event { ts = 3 } }
      local last = whole:find("{", whole:find("{", whole:find("{", 45, true) + 1, true) + 1, true)
      for cut = last + 1, #whole - 3, 7 do
        local t = open(write("t.json", whole:sub(1, cut)))
        assert.is_true(#t:events() >= 2)
        assert.equal("truncated", warning(t, "truncated").code)
        assert.equal(last - 1, warning(t, "truncated").offset)
      end
      local list = {}
      for i = 1, 3000 do list[i] = event { ts = i, name = "k" .. i * 7919 % 1000 } end
      -- an object may not end with its array, the array alone may; wherever reading began
      local events = "[" .. table.concat(list, ",\n") .. "]"
      for _, chunk in ipairs { 1000000, 20011 } do
        local cut = open(write("t.json", '{"traceEvents": ' .. events), { threads = 3, chunk_bytes = chunk })
        assert.equal(#events + 16, warning(cut, "truncated").offset)
        assert.is_nil(warning(open(write("t.json", events), { threads = 3, chunk_bytes = chunk }), "truncated"))
      end
      run(("gzip -c %q | head -c 9000 > %q"):format(write("u.json", document(list)), folder .. "/v.json.gz"))
      local t = open(folder .. "/v.json.gz")
      assert.is_true(#t:events() > 500 and #t:events() < 3000)
      assert.matches("gzip data ends early", warning(t, "bad_compression").message)
      run(("gzip -c %q | head -c 40 > %q"):format(folder .. "/u.json", folder .. "/w.json.gz"))
      local none, err = trace.open(folder .. "/w.json.gz")
      assert.is_nil(none)
      assert.matches("gzip data ends early", err.message)
    end)

    it("repairs unescaped quotes and continues after an unreadable event", function()
      local text = document { event { ts = 1 },
        '{"ph": "X", "cat": "kernel", "name": "say "hello" twice", "ts": 2, "dur": 1}',
        '{"ph": "X", "name": "broken", "ts": 3 "dur": }', event { ts = 4 } }
      local t = open(write("t.json", text))
      assert.same({ "k", 'say "hello" twice', "k" }, (t:events():columns { "name" }))
      assert.equal(text:find('hello"', 1, true) - 1, warning(t, "bad_string").offset)
      assert.equal(text:find(' "dur": }', 1, true), warning(t, "bad_event").offset)
    end)

    it("names invalid UTF-8 and control characters by their byte", function()
      local text = document { '{"ph": "X", "name": "a\xFFb", "ts": 1}', '{"ph": "X", "name": "c\nd", "ts": 2}' }
      local t = open(write("t.json", text))
      assert.same({ "a?b", "c\nd" }, (t:events():columns { "name" }))
      assert.equal(text:find("a\xFF", 1, true) - 1, warning(t, "bad_utf8").offset)
      assert.equal(text:find("c\n", 1, true) - 1, warning(t, "control_character").offset)
    end)

    it("reads names that differ only in invalid bytes as one name", function()
    local events = {}
    for i, name in ipairs { "a\xFFb", "a\xFEb", "a?b", "plain" } do
      events[i] = event { name = "NAME", cat = "CAT" }:gsub("NAME", name):gsub("CAT", name)
    end
    local t <close> = open(write("t.json", document(events)))
    assert.equal(3, #t:events { name = "a?b" })
    assert.equal(3, #t:events { category = "a?b" })
    assert.equal(2, #t:events():group "name")
  end)

  it("excludes rows with an unusable time, and warns", function()
      local t = open(write("t.json", document { event { ts = 1661203462598738 }, event { ts = 0 },
        event { ts = 1661203462598740, dur = -5 }, '{"ph": "X", "cat": "kernel", "name": "n", "ts": 1e40, "dur": 1}',
        '{"ph": "X", "cat": "kernel", "name": "n", "ts": 1661203462598790, "dur": 1, "args": [1]}' }))
      assert.same({ "args_not_object", "integer_overflow", "negative_dur", "zero_ts" }, codes(t))
      assert.equal(2, #t:events())
      assert.equal(5, #t:events { valid = false })
      assert.equal(53000, t.stop)
    end)

    it("accepts ts 0 if times are relative", function()
      local t = open(write("t.json", document { event { ts = 0 }, event { ts = 10 } }))
      assert.same({}, codes(t))
      assert.equal(2, #t:events())
    end)

    it("names the file that is not a trace", function()
      local function why(path)
        local t, err = trace.open(path)
        assert.is_nil(t)
        return err.kind, err.message
      end
      assert.equal("missing", (why(folder .. "/nothing")))
      local kind, message = why(folder)
      assert.equal("missing", kind)
      assert.matches("expected *.json, *.pb, *.sqlite, *.db, *.pftrace or *.et, perhaps with .gz or .zst behind it",
        message, 1, true)
      assert.equal("format", (why(write("empty.json", ""))))
      assert.equal("format", (why(write("other.json", '{"a": [1, 2]}'))))
      assert.equal("format", (why(write("text.json", "hello"))))
      write("good_1.json", document({ event {} }, ""))
      local t = open(folder)
      assert.equal(1, #t.files)
      assert.same({ "ignored_file", "ignored_file", "ignored_file", "unknown_rank" }, codes(t))
      os.remove(folder .. "/good_1.json")
      t = open(write("only.json", document { event { ph = "M", name = "process_name", args = { name = "a" } } }))
      assert.same({ "no_events" }, codes(t))
      assert.equal(0, #t:events())
    end)

    it("survives every cut and every flipped byte of a small trace", function()
      local whole = document({ event { name = "a\\u00e9", args = { x = { 1, "}" } } }, event { ph = "B" },
        event { ph = "E" } }, nil, ', "traceName": "t"')
      for i = 1, #whole, 2 do
        for _, text in ipairs { whole:sub(1, i), whole:sub(1, i - 1) .. '"' .. whole:sub(i + 1),
          whole:sub(1, i - 1) .. "}" .. whole:sub(i + 1), whole:sub(1, i - 1) .. "\xFF" .. whole:sub(i + 1) } do
          local t, fault = trace.open(write("t.json", text), { args = { "x" }, threads = 1 })
          if t then
            assert.is_true(#t:events():intervals() <= 3)
            t:close()
          else
            assert.equal("format", fault.kind)
          end
        end
      end
    end)
  end)

  local function varint(n)
    local out = ""
    while n > 127 do
      out, n = out .. string.char(n & 127 | 128), n >> 7
    end
    return out .. string.char(n)
  end
  local function int(field, n) return varint(field << 3) .. varint(n) end
  local function bytes(field, s) return varint(field << 3 | 2) .. varint(#s) .. s end

  it("reads the protobuf of a TPU run in picoseconds", function()
    local op = int(1, 1) .. int(2, 5000) .. int(3, 700) .. bytes(4, int(1, 2) .. int(3, 4096))
    local line = int(1, 3) .. bytes(2, "XLA Ops") .. int(3, 1700000000000000000) .. bytes(4, op)
    local meta = int(1, 1) .. bytes(2, int(1, 1) .. bytes(2, "%psum.1 = f32[]") .. bytes(4, "psum.1")
      .. bytes(5, int(1, 1) .. bytes(5, "all-reduce")))
    local plane = int(1, 2) .. bytes(2, "/device:TPU:5") .. bytes(3, line) .. bytes(4, meta)
      .. bytes(5, int(1, 1) .. bytes(2, int(1, 1) .. bytes(2, "hlo_category")))
      .. bytes(5, int(1, 2) .. bytes(2, int(1, 2) .. bytes(2, "bytes_accessed")))
    local path = write("host.xplane.pb", bytes(1, plane))
    local t = open(path, { args = { "hlo_category", "bytes_accessed", "long_name" } })
    assert.equal(1000000000000, t.ticks_per_second)
    assert.equal(1700000000000000005, t.origin_ns)
    local e = t:events({ class = "kernel" }):event(1)
    assert.same({ "psum.1", 700, 5, "XLA Ops", "/device:TPU:5", "all-reduce", 4096, "%psum.1 = f32[]" },
      { e.name, e.dur, e.device, e.thread, e.process, e.args.hlo_category, e.args.bytes_accessed, e.args.long_name })
    run(("gzip -k %q"):format(path))
    local file = open(path .. ".gz").files[1]
    assert.equal(#assert(require("ett.io").read(path)), file.uncompressed_bytes)
    assert.is_true(file.bytes ~= file.uncompressed_bytes)
    run(("gzip -c %q | head -c -12 > %q"):format(path, folder .. "/cut.xplane.pb.gz"))
    t = open(folder .. "/cut.xplane.pb.gz")
    assert.equal("truncated", warning(t, "truncated").code)
    t = open(write("cut.xplane.pb", bytes(1, plane) .. bytes(1, plane):sub(1, -20)))
    assert.equal(1, t.event_count)
    assert.truthy(warning(t, "bad_message"))
  end)

  it("places the hosts of a TPU run by the starts of their sessions", function()
    local start = 1741722099081044120
    local function host(rank, later, absolute, early)
      local line = int(1, 3) .. bytes(2, "XLA Ops") .. int(3, (absolute and start + later or 0) + 1000 - (early or 0))
        .. bytes(4, int(1, 1) .. int(2, 5000) .. int(3, 700))
      local session = bytes(2, "Task Environment") .. bytes(6, int(1, 4) .. int(3, start + later))
        .. bytes(5, int(1, 4) .. bytes(2, int(1, 4) .. bytes(2, "profile_start_time")))
      write(("pod-w-%d.xplane.pb"):format(rank), bytes(1, bytes(2, "/device:TPU:0") .. bytes(3, line))
        .. bytes(1, session))
    end
    for _, absolute in ipairs { false, true } do
      host(0, 0, absolute)
      host(1, 7000000, absolute)
      local t <close> = open(folder)
      assert.same({ 0, 7000000000 }, (t:events():columns { "ts" }))
      assert.equal(start + 1005, t.origin_ns)
    end
    host(0, 0, true, 3000000) -- a line that began 3 ms before the session
    host(1, 7000000, false)
    local t <close> = open(folder)
    assert.same({ 0, 10000000000 }, (t:events():columns { "ts" }))
  end)

  it("keeps neighbouring rows of a TPU adjacent when other files count nanoseconds", function()
    local ops = ""
    for i = 0, 999 do ops = ops .. bytes(4, int(1, 1) .. int(2, 1900 * i) .. int(3, 1900)) end
    write("rank1.json", document { event { pid = 99 } })
    write("host-w-2.xplane.pb", bytes(1, bytes(2, "/device:TPU:5") .. bytes(3, bytes(2, "XLA Ops") .. ops)))
    local t <close> = open(folder)
    local kernels = t:events { device = 5 }
    assert.same({ 1000, 1900, 1900 }, { #kernels, kernels:total(), kernels:intervals():measure() })
  end)

  it("reads an Nsight export whatever columns its version has", function()
    local path = folder .. "/run.sqlite"
    local pipe = assert(io.popen(("sqlite3 %q"):format(path), "w"))
    pipe:write [[
      CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);
      INSERT INTO StringIds VALUES(1,'saxpy'),(2,'cudaLaunchKernel');
      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER,end INTEGER,deviceId INTEGER,streamId INTEGER,
        correlationId INTEGER,shortName INTEGER,gridX INTEGER,gridY INTEGER,gridZ INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(100,250,1,7,5,1,4,2,1);
      CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER,end INTEGER,deviceId INTEGER,streamId INTEGER,
        bytes INTEGER,copyKind INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(300,310,1,7,4096,1);
      CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER,end INTEGER,globalTid INTEGER,correlationId INTEGER,
        nameId INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(50,60,33554437,5,2);
      CREATE TABLE NVTX_EVENTS(start INTEGER,end INTEGER,eventType INTEGER,text TEXT,globalTid INTEGER);
      INSERT INTO NVTX_EVENTS VALUES(40,90,59,'step',33554437);
      CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER);
      INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(1700000000000000000);]]
    if not pipe:close() then return pending("the sqlite3 shell is not installed") end
    local t = open(path, { args = { "grid", "bytes" } })
    local kernel = t:events { class = "kernel" }
    assert.same({ "saxpy", 150, 1, 7, "[4, 2, 1]" }, { kernel:get(1, "name"), kernel:get(1, "dur"),
      kernel:get(1, "device"), kernel:get(1, "stream"), kernel:get(1, "grid") })
    assert.equal("Memcpy HtoD", t:events({ class = "memcpy" }):get(1, "name"))
    assert.equal(4096, t:events({ class = "memcpy" }):get(1, "bytes"))
    local launch = kernel:match(t:events { class = "runtime" }, "correlation")
    assert.equal("cudaLaunchKernel", launch:get(1, "name"))
    assert.equal("step", launch:enclosing(t:events { class = "annotation" }):get(1, "name"))
    assert.equal(1700000000000000040, t.origin_ns)
    assert.is_nil((trace.open(path, { profile_mode = "torch" })))
    local whole = assert(require("ett.io").read(path))
    local cut = folder .. "/cut.sqlite"
    assert(require("ett.io").write(cut, whole:sub(1, 5000)))
    local none, why = trace.open(cut)
    assert.is_nil(none)
    assert.truthy(tostring(why):find(("truncated: it ends at byte 5000 of %d"):format(#whole), 1, true), tostring(why))
  end)

  it("keeps the processes of an Nsight export apart, whose correlation ids may be equal", function()
    local path = folder .. "/two.sqlite"
    local pipe = assert(io.popen(("sqlite3 %q"):format(path), "w"))
    local sql = ([[
      CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);
      INSERT INTO StringIds VALUES(1,'k'),(2,'cudaLaunchKernel'),(3,'{"bytes": 64}'),(4,'ncclAllReduce');
      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER,end INTEGER,deviceId INTEGER,streamId INTEGER,
        correlationId INTEGER,globalPid INTEGER,shortName INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1000,1100,0,7,50,A,1),(2000,2100,0,7,50,B,1);
      CREATE TABLE TARGET_INFO_CUDA_DEVICE(gpuId INTEGER,cudaId INTEGER,pid INTEGER);
      INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES(4,0,100),(5,0,200);
      CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER,end INTEGER,globalTid INTEGER,correlationId INTEGER,
        nameId INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(900,910,A+1,50,2),(1800,1810,B+1,50,2);
      CREATE TABLE NVTX_EVENTS(start INTEGER,end INTEGER,eventType INTEGER,text TEXT,textId INTEGER,
        jsonTextId INTEGER,globalTid INTEGER);
      INSERT INTO NVTX_EVENTS VALUES(1,9,59,'step 3',NULL,3,A+1),(1,9,59,NULL,4,3,A+1),(1,9,59,NULL,NULL,3,A+1),
        (1,NULL,34,'mark',NULL,NULL,A+1),(1,NULL,33,'category',NULL,NULL,A+1),(1,NULL,39,'thread',NULL,NULL,A+1),
        (1,NULL,75,'domain',NULL,NULL,A+1);]])
      :gsub("%f[%w][AB]%f[^%w]", { A = 100 << 24, B = 200 << 24 })
    pipe:write(sql)
    if not pipe:close() then return pending("the sqlite3 shell is not installed") end
    do
      local t <close> = open(path)
      local kernels = t:events { class = "kernel" }
      local launch = kernels:match(t:events { class = "runtime" }, "correlation")
      assert.same({ 100, 200 }, (launch:columns { "pid" }))
      assert.same({ 4, 5 }, (kernels:columns { "device" })) -- by CUDA_VISIBLE_DEVICES each process sees one
      assert.equal(50, kernels:get(1, "correlation"))
      assert.same({ "step 3", "ncclAllReduce", '{"bytes": 64}', "mark" },
        (t:events({ class = "annotation" }):columns { "name" }))
    end
    run(("gzip %q"):format(path))
    local none, why = trace.open(path .. ".gz")
    assert.is_nil(none)
    assert.matches("decompress it first", tostring(why))
  end)

  it("has no origin where the base time is out of range", function()
    write("a.json", '{"schemaVersion":1,"baseTimeNanoseconds":9223372036854775807,"traceEvents":['
      .. '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":1,"ts":9,"dur":1}]}')
    local t <close> = open(folder .. "/a.json")
    assert.equal(0, t.origin_ns)
  end)

  it("keeps rows without a category after 65534 categories, with any number of threads", function()
    local events = {}
    for i = 1, 70000 do
      events[i] = ('{"ph":"X","cat":"%d","name":"k","pid":0,"tid":1,"ts":1,"dur":1}'):format(i)
    end
    write("a.json", '{"schemaVersion":1,"traceEvents":[' .. table.concat(events, ",") .. "]}")
    for _, options in ipairs { { threads = 1 }, { threads = 4, chunk_bytes = 1 << 16 } } do
      local t <close> = assert(trace.open(folder .. "/a.json", options))
      assert.same({ 70000, 1 }, { #t:events(), #t:events { category = "1" } })
    end
  end)

  it("reads the graph launches of an Nsight export as device work", function()
    local path = folder .. "/graph.sqlite"
    local pipe = assert(io.popen(("sqlite3 %q"):format(path), "w"))
    pipe:write [[
      CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);
      INSERT INTO StringIds VALUES(1,'saxpy');
      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER,end INTEGER,deviceId INTEGER,streamId INTEGER,
        shortName INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(100,143,0,7,1);
      CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INTEGER,end INTEGER,deviceId INTEGER,graphId INTEGER,
        graphExecId INTEGER,contextId INTEGER,streamId INTEGER,correlationId INTEGER,globalPid INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES(200,461,0,3,4,1,7,9,1);]]
    if not pipe:close() then return pending("the sqlite3 shell is not installed") end
    local t = open(path)
    local kernels = t:events { class = "kernel" }
    assert.equal(43 + 261, kernels:intervals():measure())
    assert.same({ "CUDA graph", 0, 7, 9 }, { kernels:get(2, "name"), kernels:get(2, "device"),
      kernels:get(2, "stream"), kernels:get(2, "correlation") })
  end)

  it("refuses a file of which nothing can be read", function()
    -- The raw memory timeline of PyTorch: a list of lists.
    local none, why = trace.open(write("memory_timeline.raw.json", '[[1700, 0, ["f", 1], 64], [1701, 1, ["f", 1], 0]]'))
    assert.is_nil(none)
    assert.matches("none of its events can be read", tostring(why))
    none, why = trace.open(write("mangled.xplane.pb", "\n\7\255\255\255\255\255\255\255" .. ("\255"):rep(40)))
    assert.is_nil(none)
    assert.matches("none of its events can be read", tostring(why))
    local lfs = require "lfs"
    assert(lfs.mkdir(folder .. "/both"))
    assert(require("ett.io").write(folder .. "/both/rank0.json", document { event {} }))
    assert(require("ett.io").write(folder .. "/both/timeline.json", "[[1, 2], [3, 4]]"))
    local t = open(folder .. "/both")
    assert.equal(1, t.event_count)
    assert.matches("none of its events", warning(t, "unreadable_file").message)
    assert.equal(0, open(write("empty.json", document {})).event_count)
  end)

  it("tells kernels from copies by the streams of XLA, on NVIDIA and AMD", function()
    local classes, lines = { ["Stream #1(MemcpyD2D,Kernel)"] = "kernel", ["Stream #2(Memset,Kernel)"] = "kernel",
      ["Stream #3(MemcpyD2H,Compute)"] = "kernel", ["Stream #4(MemcpyH2D,MemcpyD2H)"] = "memcpy",
      ["Stream #5(Memset)"] = "memset", ["Stream #6"] = "kernel" }, ""
    for name in pairs(classes) do
      lines = lines .. bytes(3, int(1, tonumber(name:match "%d")) .. bytes(2, name) .. bytes(4, int(1, 1) .. int(3, 7)))
    end
    local t <close> = open(write("host.xplane.pb", bytes(1, bytes(2, "/device:GPU:0") .. lines)))
    local found = {}
    for _, e in t:events():iter() do found[e.thread] = e.class end
    assert.same(classes, found)
  end)

  it("reads a run of JAX once, which writes it up to three times", function()
    local op = event { pid = 3 }
    local text = '{"metadata": {"highres-ticks": true}, "traceEvents": [' .. op .. "]}"
    run(("mkdir -p %q %q"):format(folder .. "/jax/run1", folder .. "/jax/run2"))
    for _, name in ipairs { "run1/host-w-0.trace.json", "run1/perfetto_trace.json", "run2/perfetto_trace.json" } do
      write("jax/" .. name, text)
    end
    local function read()
      local t <close> = open(folder .. "/jax")
      local paths = {}
      for i, file in ipairs(t.files) do paths[i] = file.path:match "run.*" end
      return paths, t.event_count
    end
    assert.same({ { "run1/host-w-0.trace.json", "run2/perfetto_trace.json" }, 2 }, { read() })
    write("jax/run1/host-w-0.xplane.pb", bytes(1, bytes(2, "/device:TPU:0")
      .. bytes(3, bytes(2, "XLA Ops") .. bytes(4, int(1, 1) .. int(3, 7)))))
    assert.same({ { "run1/host-w-0.xplane.pb", "run2/perfetto_trace.json" }, 2 }, { read() })
  end)

  it("reads each real file once, whatever links lead to it", function()
    local lfs = require "lfs"
    local top = folder .. "/links"
    for _, name in ipairs{ "", "/run1", "/run1/deep" } do assert(lfs.mkdir(top .. name)) end
    local text = document { event {} }
    assert(require("ett.io").write(top .. "/run1/deep/trace_0.json", text))
    assert(require("ett.io").write(folder .. "/outside.json", text))
    for link, target in pairs{ latest = "run1", again = "run1/deep/trace_0.json", ["run1/self"] = "..",
      ["run1/deep/loop"] = ".", ["run1/two.json"] = "deep/trace_0.json", ["out.json"] = "../outside.json",
      ["dangling.json"] = "nowhere.json" } do
      assert(lfs.link(target, top .. "/" .. link, true))
    end
    local t = open(top)
    local paths = {}
    for i, file in ipairs(t.files) do paths[i] = file.path:sub(#top + 2) end
    table.sort(paths)
    assert.same({ "out.json", "run1/deep/trace_0.json" }, paths)
    assert.equal(2, t.event_count)
    assert(lfs.link(top, folder .. "/entry", true))
    assert.equal(2, open(folder .. "/entry").event_count)
  end)

  it("reports progress from the caller's thread, and stops when it raises", function()
    local list = {}
    for i = 1, 50 do list[i] = event { ts = i } end
    local path = write("t.json", document(list))
    local last
    open(path, { progress = function(done, total) last = { done, total } end })
    assert.equal(last[1], last[2])
    assert.equal("enough", raised(trace.open, path, { progress = function() error("enough", 0) end }))
    assert.matches("field 'progress' must be a function, got table", raised(trace.open, path, { progress = {} }))
    assert.matches("field 'profile_mode' must be one of auto, torch, tpu, nsys, got 'tpus'",
      raised(trace.open, path, { profile_mode = "tpus" }))
    local args = { ("k"):rep(1 << 26), "stream" } -- malloc maps such a text: freed, it is gone
    local t = open(path, { args = args, progress = function()
      args[1] = nil
      collectgarbage()
    end })
    assert.equal(50, #t:events())
  end)

  it("frees its resources once, and reports that it is closed", function()
    local t = open(write("t.json", document { event {} }))
    local all = t:events()
    t:close()
    t:close()
    assert.has_error(function() return all:total() end)
    assert.has_error(function() return t.event_count end)
    assert.has_error(function() trace.open(folder, { thread = 2 }) end)
    assert.error_matches(function() trace.open(folder, { args = { 12345 } }) end,
      "option 'args' must hold names, got number")
  end)

  it("is not freed under a query when a finalizer closes it: the collector frees it", function()
    local list = {}
    for i = 1, 3000 do list[i] = event { name = "kernel " .. i, ts = i, cat = "kernel" } end
    local path = write("t.json", document(list))
    local queries = {
      function(all) return all:columns { "ts", "name", "end", "class" } end,
      function(all) return all:group { "name" } end,
      function(all) return all:numbered { "name", "ts" } end,
      function(all) return all:stats { by = { "name" } } end,
      function(all) for _, each in all:iter() do assert(each.name) end end,
      function(_, t) return t:events { name = { "kernel 1", "kernel 2" }, class = "kernel" }:columns { "name" } end,
      function(_, t) return t:name_set(function(name) return #name > 7 end) end,
      function(_, t) return t.files, t.warnings end,
    }
    local mode = collectgarbage("generational")
    for q, query in ipairs(queries) do
      local closed, others = 0, 0
      for _ = 1, 12 do
        local t = open(path)
        local all = t:events()
        collectgarbage()
        setmetatable({}, { __gc = function()
          closed = closed + 1
          t:close()
        end })
        for _ = 1, 40 do
          local ok, why = pcall(query, all, t)
          if not ok and not tostring(why):find("closed", 1, true) then others = others + 1 end
          if closed > 0 then break end
        end
        assert.equal(0, others, "query " .. q)
      end
    end
    collectgarbage(mode)
    local t = open(path)
    setmetatable({}, { __gc = function() t:close() end })
    collectgarbage()
    assert.equal(3000, t.event_count)
    t:close()
    assert.error_matches(function() return t.event_count end, "the trace is closed")
  end)
end)
