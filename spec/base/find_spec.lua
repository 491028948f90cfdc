--- Where description files are found, and what a fault in one of them says.
local find = require "ett.base.find"
local folders = require "ett.base.folder"
local host = require "ett.host"
local lfs = require "lfs"
local raised = require "raised"

describe("ett.find", function()
  local folder = require("command").each_folder(_ENV)
  after_each(function() find.set_script_folder(nil) end)
  local function write(name, text)
    folders.make((folder .. "/" .. name):match("^(.*)/"))
    return folders.write(folder .. "/" .. name, text)
  end

  it("finds the script's files first, then the installed ones", function()
    assert.equal(host.root .. "/operators/gelu.lua", find.path("operators", "gelu"))
    local own = write("operators/gelu.lua", "return 1")
    local generation = find.generation
    find.set_script_folder(folder)
    assert.is_true(find.generation > generation)
    assert.equal(own, find.path("operators", "gelu"))
    assert.equal(write("beside.lua", "return 2"), find.path("operators", "beside"))
    assert.equal(write("operators/room/init.lua", "return 3"), find.path("operators", "room"))
    assert.is_nil(find.path("operators", "../gelu"))
    local seen = {}
    for _, entry in ipairs(find.list "operators") do seen[entry.name] = entry.path end
    assert.equal(own, seen.gelu)
    assert.is_truthy(seen.room and seen.swiglu)
  end)

  it("never takes the running script for a description of the same name", function()
    local script, other = write("gelu.lua", "return 1"), write("swiglu.lua", "return 2")
    find.set_script_folder(folder, script)
    assert.equal(host.root .. "/operators/gelu.lua", find.path("operators", "gelu"))
    assert.equal(other, find.path("operators", "swiglu"))
    find.set_script_folder(folder)
    assert.equal(script, find.path("operators", "gelu"))
    -- As the commands do: a script and a campaign.
    local read = "return require('ett.operator').get 'rope'"
    local path = write("rope.lua", "print(require('ett.operator').get('rope').summary)")
    local pipe = io.popen(("'%s/bin/ett' run '%s' 2>&1"):format(host.prefix, path))
    assert.equal("rotary position embedding", pipe:read "l")
    pipe:close()
    path = write("layer_norm.lua", [[assert(require("ett.operator").get("layer_norm").schema)
      return { name = "few", samples = { { operator = "layer_norm",
        shapes = { tokens = { 8 }, hidden = { 8 } } } } }]])
    assert.equal(path, require("ett.sampling.campaign").load(path).path)
    -- A file under a root that needs itself: one sentence.
    find.set_script_folder(folder)
    path = write("operators/altup.lua", read:gsub("rope", "altup"))
    local fault = raised(require("ett.operator").get, "altup")
    assert.equal(("altup.lua: %s: needs 'altup' before it is loaded, and finds itself by that name; rename the file")
      :format(path), fault)
    write("operators/altup.lua", "error 'first'") -- a failed load may be repeated
    assert.matches("first", raised(require("ett.operator").get, "altup"))
  end)

  it("names both files of a cycle", function()
    find.set_script_folder(folder)
    local read = "return require('ett.operator').get '%s'"
    local first, last = write("operators/a1.lua", read:format "b1"), write("operators/c1.lua", read:format "a1")
    write("operators/b1.lua", read:format "c1")
    for _ = 1, 2 do -- a failed load may be repeated
      assert.equal(("a1.lua: b1.lua: c1.lua: %s and %s load each other; remove one of these two loads")
        :format(first, last), raised(require("ett.operator").get, "a1"))
    end
    write("operators/c1.lua", read:format "c1")
    assert.matches("c1.lua: needs 'c1' before it is loaded",
      raised(require("ett.operator").get, "a1"))
  end)

  it("does not replace an unnamed part of a plan by a file at the top of the user's folder", function()
    find.set_script_folder(folder)
    for kind, name in pairs { ["lua/stacks"] = "plain", ["lua/collectives"] = "ring", ["lua/schedules"] = "gpipe" } do
      write(name .. ".lua", "return 1")
      assert.equal(("%s/%s/%s.lua"):format(host.root, kind, name), find.path(kind, name))
      assert.equal(folder .. "/" .. name .. ".lua", find.path("operators", name))
      local own = write(("%s/%s.lua"):format(kind:match "[^/]+$", name), "return 2")
      assert.equal(own, find.path(kind, name))
      local listed = {}
      for _, entry in ipairs(find.list(kind)) do listed[entry.name] = entry.path end
      assert.equal(own, listed[name])
      local other = write("own_one.lua", "return 3")
      assert.equal(other, find.path(kind, "own_one"))
    end
  end)

  it("finds what it lists, in each folder of the user", function()
    find.set_script_folder(folder)
    for _, kind in ipairs { "clusters/devices", "lua/stacks", "clusters" } do
      local leaf = kind:match "[^/]+$"
      for _, place in ipairs { kind .. "/own_%d.lua", kind .. "/own_%d/init.lua", leaf .. "/own_%d.lua",
        leaf .. "/own_%d/init.lua" } do
        local path = write(place:format(#place), "return 4")
        local name = ("own_%d"):format(#place)
        local listed = {}
        for _, entry in ipairs(find.list(kind)) do listed[entry.name] = entry.path end
        assert.equal(path, listed[name])
        assert.equal(path, find.path(kind, name))
        os.remove(path)
      end
    end
  end)

  it("finds a cluster's folder at the top of the user's folder, and names it in the current one", function()
    local path = write("lab_a/init.lua", "return 5")
    find.set_script_folder(nil)
    local here = lfs.currentdir()
    assert(lfs.chdir(folder))
    local said = raised(find.load, "clusters", "lab_a")
    assert(lfs.chdir(here))
    assert.equal("unknown cluster 'lab_a'; `--path .` finds lab_a/init.lua", said)
    find.set_script_folder(folder)
    assert.equal(path, find.path("clusters", "lab_a"))
    assert.is_nil(find.path("operators", "lab_a"))
  end)

  it("names files as messages do", function()
    assert.equal("gelu", find.name_of "/x/operators/gelu.lua")
    assert.equal("gelu", find.name_of "/x/operators/gelu/init.lua")
    assert.equal("gelu.lua", find.label "/x/operators/gelu.lua")
    assert.equal("gelu/init.lua", find.label "/x/operators/gelu/init.lua")
  end)

  it("refuses globals with the line, bytecode, and what does not compile", function()
    assert.matches("bad.lua:2: assignment to undeclared global 'x'; write 'local x'",
      raised(find.load_file, write("bad.lua", "\nx = 1")), 1, true)
    assert.matches("bad.lua:1: ", raised(find.load_file, write("bad.lua", "return {")), 1, true)
    assert.matches("attempt to load a binary chunk",
      raised(find.load_file, write("bad.lua", string.dump(function() end))), 1, true)
  end)

  it("loads parts by their full path only", function()
    write("samplers/mine/check.lua", "return 'part'")
    write("other.lua", "return 'beside'")
    find.set_script_folder(folder)
    assert.equal("part", find.part("samplers/mine", "check"))
    assert.equal("samplers/mine has no file other.lua", raised(find.part, "samplers/mine", "other"))
  end)

  it("names the nearest, or the command that lists all", function()
    assert.equal("unknown cluster 'perlmuter'; did you mean 'perlmutter'?", raised(find.load, "clusters", "perlmuter"))
    assert.equal("unknown cluster 'zzzzzz'; `ett list clusters` names them all",
      raised(find.load, "clusters", "zzzzzz"))
  end)

  it("names the clusters of a device", function()
    assert.equal("unknown cluster 'V100'; 'v100' is a device, its clusters are dgx2",
      raised(find.load, "clusters", "V100"))
    assert.equal("unknown cluster 'h20'; 'h20' is a device, and a file with device = \"h20\" describes a cluster of "
      .. "it", raised(find.load, "clusters", "h20"))
  end)

  it("names a file of the current folder, which is not searched", function()
    write("zzzzzz.lua", "return {}")
    write("collectives/mine.lua", "return {}")
    local here = lfs.currentdir()
    assert(lfs.chdir(folder))
    local cluster, collective = raised(find.load, "clusters", "zzzzzz"), raised(find.load, "lua/collectives", "mine")
    local file = raised(find.load, "lua/collectives", "zzzzzz.lua")
    assert(lfs.chdir(here))
    assert.equal("unknown collective 'zzzzzz.lua'; the name is 'zzzzzz', which `--path .` finds", file)
    local path = folder .. "/collectives/mine.lua"
    assert.equal(("unknown collective '%s'; the name is 'mine', which `--path %s/collectives` finds"):format(path,
      folder), raised(find.load, "lua/collectives", path))
    assert.equal("unknown cluster 'zzzzzz'; `--path .` finds zzzzzz.lua", cluster)
    assert.equal("unknown collective 'mine'; `--path .` finds collectives/mine.lua", collective)
  end)

  it("names a file given by its path as find.path does, with the folder in which it is found", function()
    local function advice(leaf, path, suffix)
      return (find.beside(leaf, write(path, "return {}") .. (suffix or "")):gsub(folder:gsub("%-", "%%-"), "D"))
    end
    local kept = "; 'plain' is a name of ett's: rename the file, or put it in stacks/ of a folder of `--path`"
    assert.equal("; the name is 'my.st', which `--path D/dot` finds", advice("stacks", "dot/my.st.lua"))
    assert.equal("; the name is 'own', which `--path D` finds", advice("stacks", "own.lua", ":fused=true"))
    assert.equal("; in a folder of `--path`, stacks/st/init.lua has the name 'st'", advice("stacks", "st/init.lua"))
    assert.equal("; the name is 'st', which `--path D` finds", advice("stacks", "stacks/st/init.lua"))
    assert.equal("; the name is 'lab', which `--path D` finds", advice("clusters", "lab/init.lua"))
    assert.equal(kept, advice("stacks", "plain.lua"))
    assert.equal("; the name is 'plain', which `--path D` finds", advice("stacks", "stacks/plain.lua"))
    find.set_script_folder(folder)
    for kind, name in pairs { ["lua/stacks"] = "my.st", clusters = "lab" } do
      find.set_folders(kind == "clusters" and {} or { folder .. "/dot" })
      assert.is_truthy(find.path(kind, name))
    end
    assert.equal(folder .. "/stacks/plain.lua", find.path("lua/stacks", "plain"))
    find.set_folders()
  end)

  it("finds clusters, devices and models in other spellings and by part of their names, other kinds exactly", function()
    for given, name in pairs { h100 = "dgx_h100", ["DGX-H100"] = "dgx_h100", gb200 = "gb200_nvl72",
      b200 = "dgx_b200", a100 = "dgx_a100", ["A100-40GB"] = "dgx_a100_40gb" } do
      assert.equal(name, find.meant("clusters", given))
    end
    assert.equal("llama3-8b", find.meant("lua/models", "Llama 3 8B"))
    local name, several = find.meant("clusters", "dgx")
    assert.is_nil(name)
    assert.is_true(#several > 3)
    assert.matches("the cluster 'dgx' may be dgx2, dgx_a100, dgx_a100_40gb, ",
      raised(find.load, "clusters", "dgx"), 1, true)
    assert.equal("unknown cluster 'l'; did you mean 'l40s_node'?", raised(find.load, "clusters", "l")) -- not taken
    assert.is_nil((find.meant("operators", "GELU")))
    assert.is_nil((find.meant("clusters", "-_.")))
  end)
end)
