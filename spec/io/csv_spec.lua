local command = require "command"
local csv = require "ett.csv"
local files = require "ett.io"

local function read(text, options)
  options = options or {}
  options.name = "t"
  return csv.decode(text, options)
end

describe("ett.csv.decode", function()
  it("reads columns by name, whatever their order", function()
    local t = assert(read "dim,mp,F_dur(us)\n4096.0,1,502.9476\r\n2048,2,1e3\n")
    assert.equal(2, #t)
    assert.same({ "dim", "mp", "F_dur(us)" }, t:names())
    assert.same({ 4096, 2048 }, t:numbers("dim", "count"))
    assert.equal("integer", math.type(t:numbers("dim", "count")[1]))
    assert.same({ 502.9476, 1000.0 }, t:numbers("F_dur(us)", "positive"))
    assert.same({ "1", "2" }, t:strings "mp")
    assert.equal("csv t: 2 rows of dim, mp, F_dur(us)", tostring(t))
  end)

  it("knows quotes, comments, blank lines and byte-order marks", function()
    local t = assert(read '\239\187\191# made by x\na, "b,c"\n\n"x ""y""\nz", 2\n # no comment,3\n#last')
    assert.same({ "a", "b,c" }, t:names())
    assert.same({ 'x "y"\nz', "# no comment" }, t:strings "a")
    assert.equal(4, t:line(1))
    assert.equal(6, t:line(2))
  end)

  it("takes another separator", function()
    assert.same({ 2 }, read("a;b\n1;2\n", { separator = ";" }):numbers("b", "integer"))
    assert.same({ 2 }, read("a\tb\n1\t2\n", { separator = "\t" }):numbers("b", "integer"))
  end)

  for text, wanted in pairs {
    [""] = "t: empty; expected a header line and rows",
    ["# only a comment\n\n"] = "t: empty; expected a header line and rows",
    ["a,b\n"] = "t: holds a header and no rows",
    ["a,b\n1,2\n3"] = "t: line 3: 1 field where the header has 2; is the file truncated?",
    ["a,b\n1,2\n3\n4,5\n"] = "t: line 3: 1 field where the header has 2",
    ["a,b\n1,2,3\n"] = "t: line 2: 3 fields where the header has 2",
    ["a,b,a\n1,2,3\n"] = "t: line 1: two columns are called 'a'",
    ["a\n\"x\n"] = "t: line 2: quote without an end",
    ["a\n\"x\"y\n"] = "t: line 2: text after a closing quote",
    ["a\n1\n\255\n"] = "t: line 3: not UTF-8 at byte 4 (0xff)",
  } do
    it("refuses " .. text:gsub("%c", "|"):gsub("\255", "?"), function()
      local t, err = read(text)
      assert.is_nil(t)
      assert.equal(wanted, err.message)
      assert.equal("format", err.kind)
    end)
  end

  it("names every column that is missing, and what there is", function()
    local t, err = read("mp,b\n1,2\n", { required = { "mp", "l", "dim" } })
    assert.is_nil(t)
    assert.equal("t: no column 'l', 'dim'; it has mp, b", err.message)
    for wrong, sentence in pairs { [3] = "field 'required' must be a table, got number",
      [{ {} }] = "field 'required' must hold names of columns, got table" } do
      assert.error_matches(function() read("mp,b\n1,2\n", { required = wrong }) end, sentence)
    end
    t, err = read("mp,b\n1,2\n"):numbers "l"
    assert.is_nil(t)
    assert.equal("t: no column 'l'; it has mp, b", err.message)
  end)

  for _, case in ipairs {
    { "nan", "positive", "t: line 3: column 'x' must be a positive number, got 'nan'" },
    { "-1", "positive", "t: line 3: column 'x' must be a positive number, got '-1'" },
    { "", "nonnegative", "t: line 3: column 'x' must be a number of at least 0, got ''" },
    { "inf", "number", "t: line 3: column 'x' must be a finite number, got 'inf'" },
    { "1.5", "integer", "t: line 3: column 'x' must be an integer, got '1.5'" },
    { "0", "count", "t: line 3: column 'x' must be a positive integer, got '0'" },
    { "12ms", "number", "t: line 3: column 'x' must be a finite number, got '12ms'" },
    { "1e999\n7\n\nz", "number",
      "t: line 3: column 'x' must be a finite number, got '1e999' (and 1 more row)" },
  } do
    it(("finds '%s' among %s"):format(case[1]:gsub("\n", "|"), case[2]), function()
      local rows = case[1]:gsub("\n", "\n1,"):gsub("1,\n", "\n")
      local values, err = read("i,x\n1,1\n1," .. rows .. "\n"):numbers("x", case[2])
      assert.is_nil(values)
      assert.equal(case[3], err.message)
    end)
  end

  it("may be asked to accept a header alone", function()
    assert.equal(0, #read("a,b\n", { empty = true }))
  end)

  it("can be closed twice", function()
    local t = read "a\n1\n"
    t:close()
    t:close()
    assert.error_matches(function() return #t end, "the table is closed")
  end)
end)

describe("ett.io", function()
  it("hashes content, pieces apart", function()
    assert.equal(32, #files.hash "x")
    assert.equal(files.hash("ab", "c"), files.hash("ab", "c"))
    assert.not_equal(files.hash("ab", "c"), files.hash("a", "bc"))
    assert.not_equal(files.hash "", files.hash("", ""))
    local path = os.tmpname()
    assert(files.write(path, "content"))
    assert.equal(files.hash "content", files.hash_file(path))
    local long = ("0123456789"):rep(30000) -- read in parts
    assert(files.write(path, long))
    assert.equal(files.hash(long), files.hash_file(path))
    assert(files.write(path, "content"))
    assert.equal(files.hash(files.read "/proc/version"), files.hash_file "/proc/version") -- of unknown size
    local none, why = files.hash_file(path .. ".none")
    assert.same({ nil, "missing" }, { none, why.kind })
    none, why = files.hash_file "/proc"
    assert.same({ nil, "io" }, { none, why.kind })
    assert.equal("content", files.read(path))
    assert.equal("content", files.read(path, 7))
    local text, err = files.read(path, 6)
    assert.is_nil(text)
    assert.equal("limit", err.kind)
    os.remove(path)
  end)

  it("replaces files whole", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(files.make_folder(folder .. "/a/b"))
    local path = folder .. "/a/b/c.csv"
    assert(files.write(path, "1"))
    assert(files.write(path, "2"))
    assert.equal("2", files.read(path))
    local count = 0
    for name in require("lfs").dir(folder .. "/a/b") do if not name:match "^%.+$" then count = count + 1 end end
    assert.equal(1, count)
    os.execute("rm -r " .. folder)
  end)

  it("leaves the old file when the new one cannot be written", function()
    local text, err = files.write("/dev/full", "x")
    assert.is_nil(text)
    assert.equal("cannot write '/dev/full': no space left on device", err.message)
    text, err = files.make_folder "/dev/null/x"
    assert.is_nil(text)
    assert.matches("^cannot make folder '/dev/null/x': ", err.message)
  end)

  it("writes a file once when it cannot be written whole", function()
    local folder = command.folder()
    command.write(folder, "s.lua", [[local function written()
        return tonumber(require("ett.io").read("/proc/self/io"):match "wchar: (%d+)")
      end
      local before = written()
      local ok, err = require("ett.io").write("x", ("x"):rep(1 << 20))
      print(written() - before, ok, err.message)]])
    assert.equal("65536\tnil\tcannot write 'x': file too large\n", -- 128 blocks of 512 bytes
      command.ended(0, command.shell(("cd %s && trap '' XFSZ && ulimit -f 128 && %s/bin/ett run s.lua"):format(folder,
        require("ett.host").prefix))))
    command.remove(folder)
  end)
end)
