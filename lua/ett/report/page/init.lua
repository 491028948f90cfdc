--- Self-contained HTML pages: data, style and script in one file that loads nothing else.
--
--   local page = require("ett.report.page").new { title = "a trace", scripts = { "lanes", root .. "/page.js" } }
--   page.data.rows = rows                       -- JSON, `data.rows` in the script
--   page.data.labels = page:pack(text)          -- deflated; `await unpack(data.labels)` in the script
--   page:write "out/trace.html"                 -- makes the folder
--
-- Scripts named without a slash are lua/ett/report/page/NAME.js; page.js and page.css are always part of a page. The
-- page's content security policy forbids it to load or send anything.
local files = require "ett.base.folder"
local host = require "ett.host"
local json = require "ett.json"
local pack = require "ett.pack"
local svg = require "ett.report.svg"

local page = {}
local Page = {}
Page.__index = Page

local folder = host.root .. "/lua/ett/report/page/"

--- The text of a file that is part of a page.
function page.text_of(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

--- A page without data.
---@param given table title =, subtitle =, scripts = names or paths, run in that order
function page.new(given)
  local data = { title = given.title, subtitle = given.subtitle }
  return setmetatable({ data = data, scripts = given.scripts, blobs = {}, size = 0 }, Page)
end

--- Adds base64 text of deflated bytes; returns its number for `unpack` in the script. page.size counts the bytes.
function Page:blob(text)
  self.blobs[#self.blobs + 1] = text
  self.size = self.size + #text
  return #self.blobs - 1
end

--- Adds bytes, deflated; returns their number.
function Page:pack(bytes) return self:blob(pack.deflate(bytes)) end

--- Adds any value as deflated JSON, for `unpackJson` in the script.
function Page:pack_json(value) return self:pack(json.encode(value)) end

--- JSON that cannot end the script element around it.
function page.json(value) return (json.encode(value):gsub("<", "\\u003c")) end

function Page:text()
  local offsets = { 0 }
  for i, blob in ipairs(self.blobs) do offsets[i + 1] = offsets[i] + #blob end
  self.data.blobs = json.array(offsets)
  local scripts = { page.text_of(folder .. "page.js") }
  for i, name in ipairs(self.scripts) do
    scripts[i + 1] = page.text_of(name:find("/", 1, true) and name or folder .. name .. ".js")
  end
  return table.concat { [[<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>]], svg.escape(self.data.title), "</title>\n<style>\n",
    page.text_of(folder .. "page.css"), "</style>\n</head>\n<body>\n<script type=\"application/json\" id=\"data\">",
    page.json(self.data), "</script>\n<script type=\"text/plain\" id=\"blobs\">", table.concat(self.blobs),
    "</script>\n<script>\n\"use strict\";\n", table.concat(scripts, "\n"), "</script>\n</body>\n</html>\n" }
end

--- Writes the page, and makes its folder; raises if it cannot.
function Page:write(path) files.write_with_folder(path, self:text()) end

return page
