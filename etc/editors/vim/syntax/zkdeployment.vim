" Trees of zkdeployment.
if exists("b:current_syntax")
  finish
endif

syntax match zkdeploymentComment "^\s*#.*$"
syntax match zkdeploymentNode "^\s*/\S\+" nextgroup=zkdeploymentType skipwhite
syntax match zkdeploymentMeaning "^\s*/\(deploy\|providers\)\s*$"
syntax match zkdeploymentType ":\s*\S\+\(\s\+\S\+\)\?" contained
syntax match zkdeploymentProperty "^\s*[^ \t=/#][^ \t=]*\ze\s*=>\@!" nextgroup=zkdeploymentOperator skipwhite
syntax match zkdeploymentProperty "^\s*[^ \t=/#][^ \t=]*\ze\s*\(->\|=>\)" nextgroup=zkdeploymentLink skipwhite
syntax match zkdeploymentLink "\(->\|=>\).*$" contained
syntax match zkdeploymentOperator "=>\@!" contained
syntax region zkdeploymentText start=+'+ skip=+\\.+ end=+'\|$+ oneline
syntax region zkdeploymentText start=+"+ skip=+\\.+ end=+"\|$+ oneline
syntax match zkdeploymentNumber "\<[0-9]\+\(\.[0-9]\+\)\?\>"
syntax keyword zkdeploymentConstant True False None true false null

highlight default link zkdeploymentComment Comment
highlight default link zkdeploymentNode Function
highlight default link zkdeploymentMeaning Keyword
highlight default link zkdeploymentType Type
highlight default link zkdeploymentProperty Identifier
highlight default link zkdeploymentLink Include
highlight default link zkdeploymentOperator Operator
highlight default link zkdeploymentText String
highlight default link zkdeploymentNumber Number
highlight default link zkdeploymentConstant Constant

setlocal expandtab shiftwidth=2 softtabstop=2 commentstring=#\ %s
let b:current_syntax = "zkdeployment"
