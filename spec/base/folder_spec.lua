--- Folders and whole files: ett.folder, and words of a command line: ett.shell.
local folder = require "ett.base.folder"
local lfs = require "lfs"
local raised = require "raised"
local shell = require "ett.base.shell"

local function text_of(path) return assert(require("ett.io").read(path)) end

describe("ett.folder", function()
  it("makes parent folders, and names a folder that cannot be made", function()
    local top = folder.temporary()
    folder.make(top .. "/a/b c")
    assert.equal("directory", lfs.attributes(top .. "/a/b c", "mode"))
    folder.write(top .. "/file", "x")
    folder.write_with_folder(top .. "/new/below/file", "y")
    assert.equal("y", text_of(top .. "/new/below/file"))
    assert.matches("cannot make folder '.*/file/below'", raised(folder.make, top .. "/file/below"))
    local ok, why = pcall(folder.make, "")
    assert.is_false(ok)
    assert.equal("usage", why.kind)
    folder.remove(top)
    assert.is_nil(lfs.attributes(top))
  end)

  it("writes a whole file or keeps the old one", function()
    local top = folder.temporary()
    folder.write(top .. "/x", "old")
    folder.write(top .. "/x", "new\0er")
    assert.equal("new\0er", text_of(top .. "/x"))
    assert.matches("cannot write '.*/none/x'", raised(folder.write, top .. "/none/x", "text"))
    assert.matches("no space left", raised(folder.write, "/dev/full", "text"))
    local left = 0
    for entry in lfs.dir(top) do left = left + (entry:match("^%.+$") and 0 or 1) end
    assert.equal(1, left)
    folder.remove(top)
  end)

  it("keeps the mode of a file that it replaces, whatever the umask", function()
    folder.within(function(top)
      folder.write(top .. "/old", "x")
      assert(os.execute(("chmod 664 '%s/old'"):format(top)))
      folder.write(top .. "/s.lua", "local io = require('ett.io')\nassert(io.write('old', 'y'))\n"
        .. "assert(io.write('new', 'y'))")
      local line = "cd '%s' && umask 077 && '%s/bin/ett' run s.lua"
      assert(os.execute(line:format(top, require("ett.host").prefix)))
      assert.same({ "rw-rw-r--", "rw-------" }, { lfs.attributes(top .. "/old", "permissions"),
        lfs.attributes(top .. "/new", "permissions") })
    end)
  end)

  it("makes temporary folders apart, and removes links without what they point to", function()
    local one, other = folder.temporary(), folder.temporary()
    assert.are_not.equal(one, other)
    folder.write(other .. "/kept", "x")
    assert(lfs.link(other, one .. "/link", true))
    folder.remove(one)
    assert.is_nil(lfs.attributes(one))
    assert.equal("x", text_of(other .. "/kept"))
    folder.remove(other)
  end)
end)

it("ett.shell quotes so that sh reads the same word", function()
  for _, word in ipairs { "", "plain-1.0/x", "a b", "it's", "$HOME `id` \"q\"", "new\nline", "*", "~", "ü", "\\" } do
    local pipe = io.popen("printf '%s|' " .. shell.quote(word))
    assert.equal(word .. "|", pipe:read("a"))
    pipe:close()
  end
  assert.equal("plain-1.0/x", shell.quote("plain-1.0/x"))
end)
