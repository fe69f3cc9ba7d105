import effect from "@effect/eslint-plugin"
import sortDestructureKeys from "eslint-plugin-sort-destructure-keys"
import tseslint from "typescript-eslint"

export default tseslint.config(
  { ignores: ["**/dist/", "**/node_modules/", "coverage/"] },
  {
    files: ["**/*.{ts,mjs}"],
    plugins: { "@effect": effect, "sort-destructure-keys": sortDestructureKeys },
    extends: [tseslint.configs.base],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "@effect/dprint": ["error", {
        config: {
          indentWidth: 2,
          lineWidth: 120,
          newLineKind: "lf",
          semiColons: "asi",
          quoteStyle: "alwaysDouble",
          trailingCommas: "never",
          operatorPosition: "maintain",
          "arrowFunction.useParentheses": "force"
        }
      }],
      "object-shorthand": "error",
      "sort-destructure-keys/sort-destructure-keys": "error"
    }
  },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/array-type": ["error", { default: "generic", readonly: "generic" }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // `_` begins the name of what is unused on purpose.
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      // Noise in Effect code: `Effect<void>` is a value, `this` is not used by the methods of a service, `Brand.all`
      // and `Schema.Class` need what looks like an extra type parameter or an empty interface, and a generator passed
      // to `Effect.gen` need not yield.
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/no-invalid-void-type": "off",
      "@typescript-eslint/no-unnecessary-type-parameters": "off",
      "@typescript-eslint/no-extraneous-class": "off",
      "@typescript-eslint/no-empty-object-type": "off",
      "@typescript-eslint/no-namespace": "off",
      "@typescript-eslint/unbound-method": "off",
      "@typescript-eslint/consistent-type-definitions": "off",
      "require-yield": "off"
    }
  },
  {
    files: ["packages/*/src/**/*.ts"],
    rules: {
      "no-console": "error",
      "@effect/no-import-from-barrel-package": ["error", { packageNames: ["effect", "@effect/platform"] }],
      // Time, fibers and promises belong to Effect: a TestClock and an interruption must reach everything.
      "no-restricted-globals": ["error", "setTimeout", "setInterval", "setImmediate"],
      "no-restricted-syntax": [
        "error",
        {
          selector: "MemberExpression[object.name='Effect'][property.name=/^run/]",
          message: "A library returns effects; its users run them."
        },
        { selector: "NewExpression[callee.name='Promise']", message: "Use Effect.async or Deferred." },
        {
          selector: "MemberExpression[object.name='process'][property.name=/^(exit|exitCode)$/]",
          message: "Fail the effect."
        },
        { selector: "MemberExpression[object.name='Date'][property.name='now']", message: "Use Clock." },
        { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: "Use Clock or DateTime." }
      ]
    }
  }
)
