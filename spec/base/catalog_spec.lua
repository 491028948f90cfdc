--- Lists of description files.
local catalog = require "ett.base.catalog"
local find = require "ett.base.find"
local folders = require "ett.base.folder"
local raised = require "raised"

describe("ett.catalog", function()
  it("lists every kind with a summary and no fault", function()
    for _, kind in ipairs(catalog.kinds()) do
      local list = catalog.list(kind)
      assert.is_true(#list > 0, kind)
      for _, entry in ipairs(list) do
        assert.is_nil(entry.fault, entry.path)
        assert.is_truthy(entry.summary and #entry.summary > 5, entry.path)
      end
    end
  end)

  it("lists a file that cannot be loaded with its fault", function()
    folders.within(function(folder)
      folders.make(folder .. "/operators")
      folders.write(folder .. "/operators/bad.lua", "--- Bad.\nreturn {")
      find.set_script_folder(folder)
      local found
      for _, entry in ipairs(catalog.list "operators") do if entry.name == "bad" then found = entry end end
      find.set_script_folder(nil)
      assert.equal("Bad.", found.summary)
      assert.matches("bad.lua:2: ", found.fault, 1, true)
    end)
  end)

  it("lists a file whose aliases or summary have the wrong type with its fault", function()
    folders.within(function(folder)
      for text, fault in pairs { ["aliases = 3"] = "'aliases' must be a list of strings, got 3",
        ["aliases = { 'x', {} }"] = "'aliases' must be a list of strings, got a table",
        ["summary = {}"] = "'summary' must be a string, got a table" } do
        folders.write_with_folder(folder .. "/operators/bad.lua", "--- Bad.\nreturn { " .. text .. " }")
        find.set_script_folder(folder)
        local found
        for _, entry in ipairs(catalog.list "operators") do if entry.name == "bad" then found = entry end end
        find.set_script_folder(nil)
        assert.equal("field " .. fault, found.fault)
      end
    end)
  end)

  it("lists operators, clusters and models at the top of the user's folder without running them", function()
    local host = require "ett.host"
    local function copy(from, to) folders.write(to, assert(require("ett.io").read(host.root .. "/" .. from))) end
    folders.within(function(folder)
      folders.write(folder .. "/laplace.lua", "--- Mine.\nlocal op = { name = 'laplace', summary = 's', schema = {} }\n"
        .. "function op.shape() end\nerror 'ran'\nreturn op")
      folders.write(folder .. "/program.lua", "error 'ran'")
      copy("clusters/vista/init.lua", folder .. "/ours.lua")
      require("lfs").mkdir(folder .. "/lab")
      copy("clusters/vista/init.lua", folder .. "/lab/init.lua")
      copy("lua/models/llama3-8b.lua", folder .. "/llama3-8b.lua")
      local count = {}
      for _, kind in ipairs(catalog.kinds()) do count[kind] = #catalog.entries(kind) end
      find.set_folders { folder }
      local function found(kind, name)
        for _, entry in ipairs(catalog.list(kind)) do if entry.name == name then return entry end end
      end
      local ok, why = pcall(function()
        assert.equal("Mine.", found("operators", "laplace").summary)
        assert.equal(find.path("clusters", "ours"), found("clusters", "ours").path)
        assert.equal(folder .. "/lab/init.lua", found("clusters", "lab").path)
        assert.equal(folder .. "/llama3-8b.lua", found("models", "llama3-8b").path)
        for _, kind in ipairs(catalog.kinds()) do
          local more = ({ operators = 1, clusters = 2 })[kind] or 0
          assert.equal(count[kind] + more, #catalog.entries(kind), kind)
          assert.equal(#catalog.entries(kind), #catalog.list(kind), kind)
        end
      end)
      find.set_folders(nil)
      assert(ok, tostring(why))
    end)
  end)

  it("tells the kind of a file at the top of the user's folder: bundled files, and those of pages to copy", function()
    local read = require("ett.io").read
    local kinds = { "architectures", "clusters", "collectives", "metrics", "models", "operators", "schedules",
      "stacks" }
    folders.within(function(folder)
      local wanted, found = {}, {}
      local function add(kind, name, text)
        wanted[kind .. "_of_" .. name] = kind
        folders.write(("%s/%s_of_%s.lua"):format(folder, kind, name), text)
      end
      for _, kind in ipairs(kinds) do
        for _, entry in ipairs(catalog.entries(kind)) do
          if not entry.name:find "^hockney" then add(kind, entry.name, assert(read(entry.path))) end -- of one line
        end
        local page = read(("%s/%s/README.md"):format(require("ett.host").root, find.folders[kind])) or ""
        for block in page:gmatch "\n```lua\n(.-)\n```" do
          if ("\n" .. block):find "\nreturn%f[%W]" then add(kind, #block .. "_of_page", block) end
        end
      end
      find.set_folders { folder }
      for _, kind in ipairs(catalog.kinds()) do
        for _, entry in ipairs(catalog.entries(kind)) do
          if entry.at_top then found[entry.name] = (found[entry.name] or "") .. kind end
        end
      end
      find.set_folders(nil)
      assert.same(wanted, found)
    end)
  end)

  it("lists no aliases of another operator beside its copy", function()
    folders.within(function(folder)
      require("lfs").mkdir(folder .. "/operators")
      folders.write(folder .. "/operators/again.lua", [[
local op = {}
for key, value in pairs(require("ett").operator.get "rms_norm") do op[key] = value end
op.name, op.summary = "again", "s"
return op]])
      find.set_folders { folder }
      local listed = {}
      for _, entry in ipairs(catalog.list "operators") do listed[entry.name] = entry end
      find.set_folders(nil)
      assert.same({ "s", {}, { "rmsnorm" } },
        { listed.again.summary, listed.again.aliases or {}, listed.rms_norm.aliases })
    end)
  end)

  it("names the nearest kind", function()
    local why = raised(catalog.list, "oprators")
    assert.matches("unknown kind 'oprators'; did you mean 'operators'?; known are architectures, ", why, 1,
      true)
  end)
end)
