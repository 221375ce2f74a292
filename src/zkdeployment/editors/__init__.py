"""The editors of trees and documents: a language server, and JSON schemas of all documents."""
