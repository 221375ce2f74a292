// Starts the language server of zkdeployment for trees and the documents beside them.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const [command, ...args] = workspace.getConfiguration("zkdeployment").get("command");
  client = new LanguageClient("zkdeployment", "zkdeployment", { command, args }, {
    documentSelector: [
      { scheme: "file", language: "zkdeployment" },
      { scheme: "file", language: "yaml" },
    ],
  });
  return client.start();
};

exports.deactivate = () => client && client.stop();
