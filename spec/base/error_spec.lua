local command = require "command"
local error_module = require "ett.base.error"

describe("ett.error", function()
  it("adds one label at each level", function()
    local ok, raised = pcall(error_module.wrap, "a.lua", error_module.wrap, "layer 3", function()
      error_module.raise("model", "field '%s' is wrong", "hidden")
    end)
    assert.is_false(ok)
    assert.equal("a.lua: layer 3: field 'hidden' is wrong", tostring(raised))
    assert.equal("model", raised.kind)
  end)

  it("lets nothing but a missing part pass", function()
    local function with(kind) return error_module.unless_missing(error_module.raise, kind, "no %s", "rows") end
    assert.same({ 1, 2, nil }, { error_module.unless_missing(table.unpack, { 1, 2 }) })
    assert.same({ n = 1 }, table.pack(with "missing"))
    assert.is_false(pcall(with, "model"))
    assert.matches("attempt to", select(2, pcall(error_module.unless_missing, error, "attempt to")).message)
  end)

  it("names a file once", function()
    for message, wanted in pairs { ["a.lua:3: boom"] = "a.lua:3: boom", ["/x/a.lua:3: boom"] = "/x/a.lua:3: boom",
      ["ba.lua:3: boom"] = "a.lua: ba.lua:3: boom", ["a.lua: line 3: boom"] = "a.lua: line 3: boom" } do
      assert.equal(wanted, tostring(error_module.label(message, "a.lua")))
    end
    local why = select(2, require("ett.io").read "/")
    assert.equal("cannot read '/': is a directory", tostring(error_module.label(why, "/")))
  end)

  it("keeps a quoted value with newlines in one line", function()
    local message = error_module.new("usage", "%+.1f %%, '%s', %s and '%s'", 1.5, "a\nb", "c\nd", "e\n").message
    assert.equal("+1.5 %, 'a\\nb', c\nd and 'e\\n'", message)
  end)

  it("finds the nearest name", function()
    assert.equal("rms_norm", error_module.nearest("rms_nrom", { "gelu", "rms_norm", "rope" }))
    assert.is_nil(error_module.nearest("zzzzzz", { "gelu", "rms_norm" }))
    assert.is_nil(error_module.nearest("dit", { "gpt" }))
    assert.is_nil(error_module.nearest("xero", { "gemm" }))
    assert.equal("zero", error_module.nearest("zeor", { "gemm", "zero" }))
    assert.equal("seq", error_module.nearest("sqe", { "seq", "tp" }))
  end)
end)

it("an executable without the folder of its modules names the folder", function()
  local folders, host = require "ett.base.folder", require "ett.host"
  folders.within(function(tree)
    folders.make(tree .. "/bin")
    folders.make(tree .. "/share")
    assert(os.execute(("cp '%s/bin/ett' '%s/bin' && ln -s '%s' '%s/share/ett'"):format(host.prefix, tree, host.root,
      tree)))
    folders.write(tree .. "/a.yml", "encoders: 4\n")
    folders.write(tree .. "/s.lua", "require 'ett.yaml'")
    for _, words in ipairs { "predict --config a.yml", "run s.lua" } do
      local said = command.shell(("cd '%s' && bin/ett %s"):format(tree, words))
      assert.matches("module 'ett.yaml' not found; this tree lacks the folder ", said, 1, true)
      assert.matches("/lib/ett/ett of ett's modules\n$", said)
    end
  end)
end)

describe("a module that may not be built", function()
  it("is loaded, or reported as missing with the remedy", function()
    assert.equal(require "ett.json", error_module.part("ett.json", "JSON", "install it"))
    local part, why = error_module.part("ett.no_such_part", "the part", "install libpart-dev")
    assert.is_nil(part)
    assert.equal("the part is not built: install libpart-dev and build again", why)
  end)

  it("passes on the signal that ends its loading", function()
    package.preload["ett.stopped_part"] = function() error(error_module.new("interrupt", "terminated"), 0) end
    finally(function() package.preload["ett.stopped_part"] = nil end)
    local ok, raised = pcall(error_module.part, "ett.stopped_part", "the part", "install libpart-dev")
    assert.is_false(ok)
    assert.equal("interrupt", raised.kind)
  end)

  it("is not reported as missing when loading it fails", function()
    package.preload["ett.broken_part"] = function() error("libpart.so.4: cannot open shared object file\nmore", 0) end
    local part, why = error_module.part("ett.broken_part", "the part", "install libpart-dev")
    package.preload["ett.broken_part"] = nil
    assert.is_nil(part)
    assert.equal("the part cannot be loaded: libpart.so.4: cannot open shared object file; install libpart-dev", why)
    -- As Lua says it of a real one: the library that the loader missed stands on the second line.
    local folder, path = require("ett.base.folder").temporary(), package.cpath
    finally(function()
      package.cpath = path
      require("ett.base.folder").remove(folder)
    end)
    require("ett.base.folder").write(folder .. "/ett_short_part.so", "no library")
    package.cpath = folder .. "/?.so"
    part, why = error_module.part("ett_short_part", "the part", "install libpart-dev")
    assert.is_nil(part)
    assert.equal(("the part cannot be loaded: %s/ett_short_part.so: file too short; install libpart-dev")
      :format(folder), why)
  end)
end)

it("a suggestion completes a beginning of three letters that only one name has, else takes the nearest", function()
  assert.equal("; did you mean 'llemma_7b'?", error_module.suggestion("lle", { "gpt_175b", "llemma_7b" }))
  assert.equal("", error_module.suggestion("ll", { "gpt_175b", "llemma_7b" }))
  assert.equal("", error_module.suggestion("llemma", { "llemma_70b_x", "llemma_7b_xy" }))
end)

it("what is raised without being an error object is shown by its content", function()
  assert.equal('{ 1, a = "b" }', tostring(error_module.from { 1, a = "b" }))
  assert.equal("nil was raised", tostring(error_module.from(nil)))
  assert.equal("own words", tostring(error_module.from(setmetatable({}, { __tostring = function()
    return "own words"
  end }))))
  assert.equal(("not enough memory: Lua may use %d MiB (ETT_MEMORY_LIMIT sets the limit)"):format(
    require("ett.host").memory_limit / 2 ^ 20), tostring(error_module.from "a.lua:3: not enough memory"))
  assert.matches("^a.lua:3: module 'none' not found; it is not in the script's folder, %-%-path",
    tostring(error_module.from "a.lua:3: module 'none' not found:\n\tno field package.preload['none']\n\tno file 'x'"))
end)
