--- Words for `sh`.
local shell = require "ett.base.shell"

it("ett.shell: sh reads a quoted word back as it was", function()
  for _, word in ipairs { "plain-1.0/x=y", "two words", "it's", "$HOME `x` \"y\" \\ *", "", "a\nb" } do
    local pipe = assert(io.popen("printf %s " .. shell.quote(word)))
    assert.equal(word, pipe:read "a")
    pipe:close()
  end
end)
